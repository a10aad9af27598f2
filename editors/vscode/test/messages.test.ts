import assert from "node:assert/strict";
import { test } from "node:test";

import type { Answer, Command } from "../src/command";
import { installFor, notFound, notStarted, shown, told } from "../src/messages";

const onPath: Command = { executable: "torchlint", args: [], origin: "PATH" };
const environment: Command = { executable: "/venv/bin/python", args: ["-m", "torchlint"], origin: "environment" };
const missing: Answer = { kind: "missing" };
const notInstalled: Answer = { kind: "not-installed" };

test("nothing is installed anywhere: the selected interpreter is named and told how to get it", () => {
  const problem = notFound([
    { command: environment, answer: notInstalled },
    { command: onPath, answer: missing },
  ]);
  assert.match(problem.text, /\/venv\/bin\/python, the selected interpreter, nor found on PATH/);
  assert.match(problem.text, /pip install "\.\[server\]"$/);
  assert.equal(problem.install, undefined);
});

test("no interpreter is selected: pip itself, and the other ways out", () => {
  const problem = notFound([{ command: onPath, answer: missing }]);
  assert.match(problem.text, /not found on PATH.*torchlint\.path/);
  assert.match(problem.text, /pip install "\.\[server\]"$/);
});

test("a wrong setting is named, and nothing to install is offered", () => {
  const problem = notFound([
    { command: { executable: "/gone/torchlint", args: [], origin: "torchlint.path" }, answer: missing },
  ]);
  assert.match(problem.text, /^torchlint\.path: \/gone\/torchlint cannot be run/);
  assert.equal(problem.install, undefined);
});

test("the interpreter of the setting lacks torchlint: both are named", () => {
  const problem = notFound([
    { command: { ...environment, executable: "/my venv/python", origin: "torchlint.interpreter" }, answer: notInstalled },
  ]);
  assert.match(problem.text, /^torchlint\.interpreter: torchlint is not installed for \/my venv\/python/);
});

test("a torchlint that fails is more telling than one that is absent", () => {
  const problem = notFound([
    { command: environment, answer: { kind: "failed", reason: "SyntaxError: invalid syntax" } },
    { command: onPath, answer: missing },
  ]);
  assert.equal(problem.text, "/venv/bin/python -m torchlint --version failed: SyntaxError: invalid syntax");
});

test("a server without pygls is told what to install", () => {
  const stderr = "error: the language server needs pygls: pip install 'pygls>=2'\n";
  const problem = notStarted(environment, stderr, new Error("connection closed"));
  assert.match(problem.text, /needs pygls/);
  assert.equal(problem.install, '/venv/bin/python -m pip install "pygls>=2"');
  const elsewhere: Command = { ...environment, executable: "/my venv/python" };
  assert.equal(installFor(elsewhere), '"/my venv/python" -m pip install "pygls>=2"');
});

test("another failure of the server is told in its own last words", () => {
  const problem = notStarted(onPath, "starting\nValueError: no\n\n", new Error("connection closed"));
  assert.equal(problem.text, "torchlint server did not start: ValueError: no");
  assert.equal(notStarted(onPath, "", new Error("closed")).text, "torchlint server did not start: closed");
});

test("a command is shown as it would be typed", () => {
  assert.equal(shown({ ...environment, executable: "C:\\Program Files\\python.exe" }), '"C:\\Program Files\\python.exe" -m torchlint');
});

test("the log tells what each command answered", () => {
  const answers: Answer[] = [
    { kind: "version", version: "0.1.0" },
    missing,
    notInstalled,
    { kind: "failed", reason: "it did not answer in time" },
  ];
  assert.deepEqual(answers.map(told), [
    "version 0.1.0",
    "cannot be run",
    "torchlint is not installed",
    "it did not answer in time",
  ]);
});
