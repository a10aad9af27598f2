/** Keeps `torchlint server` in step with the settings and the chosen interpreter. */

import * as vscode from "vscode";

import { latest } from "./latest";
import { findInterpreters } from "./python";
import { Server } from "./server";

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("torchlint", { log: true });
  const status = vscode.languages.createLanguageStatusItem("torchlint", [
    { language: "python" },
    { notebookType: "jupyter-notebook" },
  ]);
  status.name = "torchlint";
  status.text = "torchlint";
  status.command = { command: "torchlint.showLogs", title: "Show Logs" };
  const interpreters = await findInterpreters(log);
  const current = new Server(log, status, interpreters, context.extensionPath);
  server = current;
  const restart = latest(() => current.restart());

  context.subscriptions.push(
    log,
    status,
    vscode.commands.registerCommand("torchlint.restart", restart),
    vscode.commands.registerCommand("torchlint.showLogs", () => {
      log.show();
    }),
    vscode.commands.registerCommand("torchlint.fixAll", async () => {
      const notebook = vscode.window.activeNotebookEditor?.notebook;
      const uri = notebook?.uri ?? vscode.window.activeTextEditor?.document.uri;
      if (uri !== undefined) {
        await current.fixAll(uri);
      }
    }),
    vscode.workspace.onDidChangeConfiguration(async (event) => {
      // The client itself follows `torchlint.trace.server`.
      if (event.affectsConfiguration("torchlint") && !event.affectsConfiguration("torchlint.trace")) {
        await restart();
      }
    }),
    vscode.workspace.onDidChangeWorkspaceFolders(async () => {
      if (current.dependsOnFolder()) {
        await restart();
      }
    }),
  );
  if (interpreters !== undefined) {
    context.subscriptions.push(
      interpreters.onDidChange(async () => {
        if (current.dependsOnInterpreter()) {
          await restart();
        }
      }),
    );
  }
  void restart(); // the editor need not wait for the server
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
