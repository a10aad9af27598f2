// Bundles the extension into dist/, or with --tests the tests into out/.

import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";

import { build } from "esbuild";

const tests = process.argv.includes("--tests");
const folder = tests ? "out" : "dist";
rmSync(folder, { recursive: true, force: true });
const { metafile } = await build({
  entryPoints: tests
    ? readdirSync("test").filter((name) => name.endsWith(".test.ts")).map((name) => `test/${name}`)
    : ["src/extension.ts"],
  outdir: folder,
  bundle: true,
  platform: "node",
  target: "node20",
  format: "cjs",
  external: ["vscode"],
  mainFields: ["module", "main"],
  minify: !tests,
  sourcemap: tests ? "inline" : false,
  metafile: true,
  logLevel: "warning",
});
if (!tests) {
  writeFileSync(`${folder}/THIRD-PARTY-LICENSES.txt`, licenses(Object.keys(metafile.inputs)));
}

/** The licenses of the packages that the bundle holds, which ask to go where the code goes. */
function licenses(inputs) {
  const packages = new Set(inputs.map((path) => /^(?:.*\/)?node_modules\/(?:@[^/]+\/)?[^/]+/.exec(path)?.[0]).filter(Boolean));
  return [...packages].sort().map((path) => {
    const { name, version } = JSON.parse(readFileSync(`${path}/package.json`, "utf8"));
    const file = readdirSync(path).find((entry) => /^licen[cs]e/i.test(entry));
    if (file === undefined) {
      throw new Error(`${name} has no license file: leave it out of the bundle or say here where it is`);
    }
    return `${name} ${version}\n\n${readFileSync(`${path}/${file}`, "utf8").trim()}\n`;
  }).join(`\n${"-".repeat(72)}\n\n`);
}
