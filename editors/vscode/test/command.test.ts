import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

import { type Answer, askVersion, candidates, type Command, firstThatRuns, readVersion } from "../src/command";
import type { Settings } from "../src/settings";

const unset: Settings = { enable: true, path: "", interpreter: "", configuration: undefined };
const version: Answer = { kind: "version", version: "0.1.0" };

test("without settings: the active interpreter, then PATH", () => {
  assert.deepEqual(candidates(unset, "/venv/bin/python"), [
    { executable: "/venv/bin/python", args: ["-m", "torchlint"], origin: "environment" },
    { executable: "torchlint", args: [], origin: "PATH" },
  ]);
});

test("without settings and interpreter: PATH", () => {
  assert.deepEqual(candidates(unset, undefined), [{ executable: "torchlint", args: [], origin: "PATH" }]);
});

test("torchlint.path comes before all and is tried alone", () => {
  const settings = { ...unset, path: "/opt/torchlint", interpreter: "/opt/python" };
  assert.deepEqual(candidates(settings, "/venv/bin/python"), [
    { executable: "/opt/torchlint", args: [], origin: "torchlint.path" },
  ]);
});

test("torchlint.interpreter comes before the active interpreter and is tried alone", () => {
  assert.deepEqual(candidates({ ...unset, interpreter: "/opt/python" }, "/venv/bin/python"), [
    { executable: "/opt/python", args: ["-m", "torchlint"], origin: "torchlint.interpreter" },
  ]);
});

test("the first command that tells a version ends the search", async () => {
  const asked: string[] = [];
  const answers: Record<string, Answer> = { "/venv/bin/python": { kind: "not-installed" }, torchlint: version };
  const ask = (command: Command): Promise<Answer> => {
    asked.push(command.executable);
    return Promise.resolve(answers[command.executable] ?? { kind: "missing" });
  };
  const attempts = await firstThatRuns(candidates(unset, "/venv/bin/python"), ask);
  assert.deepEqual(attempts.at(-1)?.answer, version);
  assert.deepEqual(asked, ["/venv/bin/python", "torchlint"]);

  asked.length = 0;
  answers["/venv/bin/python"] = version;
  await firstThatRuns(candidates(unset, "/venv/bin/python"), ask);
  assert.deepEqual(asked, ["/venv/bin/python"]);
});

test("a version is read only from torchlint's own answer", () => {
  assert.deepEqual(readVersion(null, "torchlint 1.2.3\n", "a warning\n"), { kind: "version", version: "1.2.3" });
  assert.deepEqual(readVersion(null, "pylint 4.0\n", ""), { kind: "failed", reason: "pylint 4.0" });
  assert.deepEqual(readVersion(null, "", ""), { kind: "failed", reason: "it said nothing" });
});

test("an interpreter without torchlint is told from a broken torchlint", () => {
  const error = Object.assign(new Error("exit 1"), { code: 1 });
  assert.deepEqual(readVersion(error, "", "/usr/bin/python3: No module named torchlint\n"), { kind: "not-installed" });
  const broken = "Traceback …\nModuleNotFoundError: No module named 'torchlint.cli'\n";
  assert.equal(readVersion(error, "", broken).kind, "failed");
});

test("a command that hangs is told so", () => {
  const error = Object.assign(new Error("killed"), { killed: true });
  assert.deepEqual(readVersion(error, "", ""), { kind: "failed", reason: "it did not answer in time" });
});

test("real processes: an absent executable, and an interpreter that is none", async () => {
  const folder = mkdtempSync(path.join(os.tmpdir(), "torchlint-"));
  try {
    const absent = path.join(folder, "absent");
    assert.deepEqual(await askVersion({ executable: absent, args: [], origin: "torchlint.path" }, folder), {
      kind: "missing",
    });
    const node = await askVersion({ executable: process.execPath, args: [], origin: "torchlint.path" }, folder);
    assert.deepEqual(node, { kind: "failed", reason: process.version });
  } finally {
    rmSync(folder, { recursive: true });
  }
});
