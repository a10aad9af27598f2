import assert from "node:assert/strict";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";

import { expand, initializationOptions, readSettings, type Variables } from "../src/settings";

const variables: Variables = { workspaceFolder: path.resolve("/code/project"), env: { VENV: "/venvs/a" } };

function read(values: Record<string, unknown>, where: Variables = variables) {
  return readSettings((key) => values[key], where);
}

test("nothing set: torchlint runs, and nothing else is said", () => {
  assert.deepEqual(read({}), { enable: true, path: "", interpreter: "", configuration: undefined });
});

test("only an explicit false disables", () => {
  assert.equal(read({ enable: false }).enable, false);
  assert.equal(read({ enable: null }).enable, true);
});

test("variables are replaced in every path", () => {
  const settings = read({ path: " ${workspaceFolder}/bin/torchlint ", interpreter: "${env:VENV}/bin/python" });
  assert.equal(settings.path, `${variables.workspaceFolder ?? ""}/bin/torchlint`);
  assert.equal(settings.interpreter, "/venvs/a/bin/python");
});

test("a value of the wrong type counts as not set", () => {
  assert.equal(read({ path: ["torchlint"] }).path, "");
});

test("the home folder is written ~ or ${userHome}", () => {
  assert.equal(expand("~/bin/x", variables), `${os.homedir()}/bin/x`);
  assert.equal(expand("~", variables), os.homedir());
  assert.equal(expand("${userHome}/x", variables), `${os.homedir()}/x`);
  assert.equal(expand("~other/x", variables), "~other/x");
});

test("what a variable stands for is not read again", () => {
  assert.equal(expand("${env:ODD}", { ...variables, env: { ODD: "$&${userHome}" } }), "$&${userHome}");
});

test("an unset environment variable is empty; an unknown variable stays for the user to see", () => {
  assert.equal(expand("${env:NONE}/x", variables), "/x");
  assert.equal(expand("${workspaceRoot}/x", variables), "${workspaceRoot}/x");
  assert.equal(expand("${workspaceFolder}/x", { ...variables, workspaceFolder: undefined }), "${workspaceFolder}/x");
});

test("a relative configuration lies in the folder that is open", () => {
  const settings = read({ configuration: "conf/torchlint.toml" });
  assert.equal(settings.configuration, path.join(variables.workspaceFolder ?? "", "conf", "torchlint.toml"));
});

test("a configuration may be a table of settings; anything else counts as not set", () => {
  const table = { "extend-select": ["TL109"] };
  assert.deepEqual(read({ configuration: table }).configuration, table);
  for (const value of [null, "", "  ", ["TL109"], 3]) {
    assert.equal(read({ configuration: value }).configuration, undefined);
  }
});

test("the server is told the configuration, if one is set", () => {
  assert.deepEqual(initializationOptions(read({})), { settings: {} });
  const configuration = path.resolve("/etc/torchlint.toml");
  assert.deepEqual(initializationOptions(read({ configuration })), { settings: { configuration } });
});
