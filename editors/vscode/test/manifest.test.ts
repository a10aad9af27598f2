import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import manifest from "../package.json";

// The tests run in the folder of package.json, as npm starts them.
const source = readdirSync("src")
  .map((name) => readFileSync(`src/${name}`, "utf8"))
  .join("\n");
const readme = readFileSync("README.md", "utf8");
const settings = Object.keys(manifest.contributes.configuration.properties);
const commands = manifest.contributes.commands.map(({ command }) => command);

test("each command is registered, and no other", () => {
  const registered = [...source.matchAll(/registerCommand\("([^"]+)"/g)].map((match) => match[1]);
  assert.deepEqual(registered.sort(), [...commands].sort());
});

test("each setting is read, and no other", () => {
  const reader = readFileSync("src/settings.ts", "utf8");
  const read = [...reader.matchAll(/(?:get|text)\("(\w+)"\)/g)].map((match) => `torchlint.${match[1] ?? ""}`);
  // The client library reads the last one.
  assert.deepEqual([...read, "torchlint.trace.server"].sort(), [...settings].sort());
});

test("the page tells every setting and command", () => {
  for (const setting of settings) {
    assert.ok(readme.includes(`\`${setting}\``), setting);
  }
  for (const { category, title } of manifest.contributes.commands) {
    assert.ok(readme.includes(`${category}: ${title}`), title);
  }
});

test("a path that names what is run or imported can be set per machine only, or by a trusted workspace", () => {
  assert.equal(manifest.capabilities.untrustedWorkspaces.supported, false);
  for (const key of ["torchlint.path", "torchlint.interpreter", "torchlint.configuration"] as const) {
    assert.equal(manifest.contributes.configuration.properties[key].scope, "machine-overridable", key);
  }
});
