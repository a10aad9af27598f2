// Speaks to the real `torchlint server`, started as the extension starts it, over the protocol that VS Code uses.

import assert from "node:assert/strict";
import { type ChildProcessByStdio, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import type { Readable, Writable } from "node:stream";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";

import {
  ApplyWorkspaceEditRequest,
  CodeActionRequest,
  createProtocolConnection,
  DidOpenTextDocumentNotification,
  DocumentDiagnosticRequest,
  ExecuteCommandRequest,
  ExitNotification,
  InitializedNotification,
  InitializeRequest,
  type ProtocolConnection,
  ShutdownRequest,
  StreamMessageReader,
  StreamMessageWriter,
  type WorkspaceEdit,
} from "vscode-languageserver-protocol/node";

import { askVersion, candidates, type Command } from "../src/command";
import { initializationOptions, readSettings } from "../src/settings";

const SLOW = 'import torch\n\n\ndef make(n):\n    return torch.zeros(n, n).to("cuda")\n';
const FIXED = 'torch.zeros(n, n, device="cuda")';

/** An interpreter that has torchlint and pygls: TORCHLINT_PYTHON, else the one on PATH. */
function findPython(): string | undefined {
  for (const python of [process.env.TORCHLINT_PYTHON, "python3", "python"]) {
    try {
      if (python) {
        execFileSync(python, ["-c", "import torchlint, pygls"], { stdio: "ignore", cwd: os.tmpdir() });
        return python;
      }
    } catch {
      // the next one may
    }
  }
  return undefined;
}

const python = findPython();
const skip = python === undefined ? "no interpreter with torchlint and pygls; TORCHLINT_PYTHON names one" : false;

interface Session {
  readonly connection: ProtocolConnection;
  readonly process: ChildProcessByStdio<Writable, Readable, null>;
}

async function start(command: Command, folder: string, settings: Record<string, unknown>): Promise<Session> {
  const child = spawn(command.executable, [...command.args, "server"], {
    cwd: folder,
    stdio: ["pipe", "pipe", "inherit"],
  });
  const connection = createProtocolConnection(new StreamMessageReader(child.stdout), new StreamMessageWriter(child.stdin));
  connection.listen();
  const rootUri = pathToFileURL(folder).toString();
  await connection.sendRequest(InitializeRequest.type, {
    processId: process.pid,
    // eslint-disable-next-line @typescript-eslint/no-deprecated -- the protocol requires it all the same
    rootUri,
    workspaceFolders: [{ uri: rootUri, name: "folder" }],
    initializationOptions: initializationOptions(
      readSettings((key) => settings[key], { workspaceFolder: folder, env: process.env }),
    ),
    capabilities: {
      textDocument: { diagnostic: {}, codeAction: { codeActionLiteralSupport: { codeActionKind: { valueSet: [] } } } },
    },
  });
  await connection.sendNotification(InitializedNotification.type, {});
  return { connection, process: child };
}

async function stop({ connection, process: child }: Session): Promise<number | null> {
  const ended = new Promise<number | null>((resolve) => child.once("exit", resolve));
  await connection.sendRequest(ShutdownRequest.type);
  await connection.sendNotification(ExitNotification.type);
  const status = await ended;
  connection.dispose();
  return status;
}

function open({ connection }: Session, uri: string): Promise<void> {
  const textDocument = { uri, languageId: "python", version: 1, text: SLOW };
  return connection.sendNotification(DidOpenTextDocumentNotification.type, { textDocument });
}

async function codesOf({ connection }: Session, uri: string): Promise<unknown[]> {
  const report = await connection.sendRequest(DocumentDiagnosticRequest.type, { textDocument: { uri } });
  assert.equal(report.kind, "full");
  return report.items.map(({ code }) => code);
}

function changes(edit: WorkspaceEdit | undefined, uri: string): string {
  return (edit?.changes?.[uri] ?? []).map(({ newText }) => newText).join("");
}

describe("torchlint server", { skip }, () => {
  const settings = { interpreter: python };
  const command = candidates(readSettings((key) => settings[key as "interpreter"], { workspaceFolder: undefined, env: {} }), undefined)[0];
  const folder = mkdtempSync(path.join(os.tmpdir(), "torchlint-"));
  const uri = pathToFileURL(path.join(folder, "slow.py")).toString();
  let session: Session;

  before(async () => {
    assert.ok(command);
    session = await start(command, folder, settings);
    await open(session, uri);
  });

  after(() => {
    session.process.kill();
    rmSync(folder, { recursive: true });
  });

  test("the interpreter tells torchlint's version", async () => {
    assert.ok(command);
    assert.equal((await askVersion(command, folder)).kind, "version");
  });

  test("a finding is reported", async () => {
    assert.deepEqual(await codesOf(session, uri), ["TL206"]);
  });

  test("what is asked for on save mends it", async () => {
    const actions = await session.connection.sendRequest(CodeActionRequest.type, {
      textDocument: { uri },
      range: { start: { line: 0, character: 0 }, end: { line: 0, character: 0 } },
      context: { diagnostics: [], only: ["source.fixAll.torchlint"] },
    });
    const action = actions?.[0];
    assert.ok(action && !("arguments" in action) && "edit" in action);
    assert.ok(changes(action.edit, uri).includes(FIXED));
  });

  test("Fix All mends it through the server's command", async () => {
    const asked = new Promise<WorkspaceEdit>((resolve) => {
      session.connection.onRequest(ApplyWorkspaceEditRequest.type, ({ edit }) => {
        resolve(edit);
        return { applied: true };
      });
    });
    await session.connection.sendRequest(ExecuteCommandRequest.type, { command: "torchlint.applyFixAll", arguments: [uri] });
    assert.ok(changes(await asked, uri).includes(FIXED));
  });

  test("the configuration reaches the server", async () => {
    assert.ok(command);
    const other = await start(command, folder, { ...settings, configuration: { ignore: ["TL206"] } });
    try {
      await open(other, uri);
      assert.deepEqual(await codesOf(other, uri), []);
    } finally {
      other.process.kill();
    }
  });

  test("the server ends in order when it is told to", async () => {
    assert.equal(await stop(session), 0);
  });
});
