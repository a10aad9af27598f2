/** The running `torchlint server`: found, started, stopped, and its state shown. */

import * as readline from "node:readline";
import { setTimeout } from "node:timers/promises";

import * as vscode from "vscode";
import {
  CloseAction,
  type DocumentSelector,
  ErrorAction,
  ExecuteCommandRequest,
  LanguageClient,
  State,
} from "vscode-languageclient/node";

import { askVersion, candidates, type Command, firstThatRuns } from "./command";
import { notFound, notStarted, type Problem, shown, told } from "./messages";
import type { Interpreters } from "./python";
import { initializationOptions, readSettings, type Settings } from "./settings";

/** What is linted. Cells are named by their notebook, so that torchlint sees the whole of it. */
const DOCUMENTS: DocumentSelector = [
  { scheme: "file", language: "python" },
  { scheme: "untitled", language: "python" },
  { notebook: "jupyter-notebook", language: "python" },
];

const LAST_WORDS_MS = 1000;

/** The server's own command. */
const FIX_ALL = "torchlint.applyFixAll";

/** A client that shows no errors before its server has started: `Server.fail` reports the problem, once. */
class Client extends LanguageClient {
  started = false;

  override error(message: string, data?: unknown, showNotification?: boolean | "force"): void {
    super.error(message, data, this.started && showNotification);
  }
}

export class Server {
  private client: LanguageClient | undefined;
  private settings: Settings | undefined;
  private folder: vscode.WorkspaceFolder | undefined;

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly status: vscode.LanguageStatusItem,
    private readonly interpreters: Interpreters | undefined,
    private readonly home: string,
  ) {}

  /** Whether another interpreter would be another server. */
  dependsOnInterpreter(): boolean {
    return this.settings !== undefined && this.settings.enable && !this.settings.path && !this.settings.interpreter;
  }

  /** Whether the folder that the settings are read for is another one now. */
  dependsOnFolder(): boolean {
    return firstFolder()?.uri.toString() !== this.folder?.uri.toString();
  }

  async restart(): Promise<void> {
    await this.stop();
    this.folder = firstFolder();
    const configuration = vscode.workspace.getConfiguration("torchlint", this.folder);
    this.settings = readSettings((key) => configuration.get(key), {
      workspaceFolder: this.folder?.uri.fsPath,
      env: process.env,
    });
    if (!this.settings.enable) {
      this.log.info("Disabled by torchlint.enable.");
      this.show("disabled");
      return;
    }
    this.show("starting", { busy: true });
    const interpreter = this.dependsOnInterpreter() ? await this.activeInterpreter() : undefined;
    const attempts = await firstThatRuns(candidates(this.settings, interpreter), (command) =>
      askVersion(command, this.home),
    );
    for (const { command, answer } of attempts) {
      this.log.info(`${shown(command)} (${command.origin}): ${told(answer)}`);
    }
    const last = attempts.at(-1);
    if (last?.answer.kind !== "version") {
      this.fail(notFound(attempts));
      return;
    }
    await this.start(last.command, last.answer.version, this.settings);
  }

  /** Applies all safe fixes to a file or notebook that is open. */
  async fixAll(uri: vscode.Uri): Promise<void> {
    if (this.client === undefined) {
      void vscode.window.showWarningMessage("The torchlint server is not running.");
      return;
    }
    await this.client.sendRequest(ExecuteCommandRequest.type, {
      command: FIX_ALL,
      arguments: [this.client.code2ProtocolConverter.asUri(uri)],
    });
  }

  async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose();
    } catch (error) {
      this.log.warn(`The server did not stop properly: ${String(error)}`); // it may have ended by itself
    }
  }

  private async start(command: Command, version: string, settings: Settings): Promise<void> {
    let stderr = "";
    let stderrEnded: Promise<unknown> = Promise.resolve();
    const client: Client = new Client(
      "torchlint",
      "torchlint",
      { command: command.executable, args: [...command.args, "server"], options: { cwd: this.home } },
      {
        documentSelector: DOCUMENTS,
        initializationOptions: initializationOptions(settings),
        outputChannel: this.log,
        middleware: {
          // The server knows its settings from the start; when they change, `restart` starts another.
          workspace: { didChangeConfiguration: () => Promise.resolve() },
        },
        stdioOptions: {
          stdout: () => undefined, // the protocol's own
          stderr: (stream) => {
            const lines = readline.createInterface({ input: stream });
            stderrEnded = new Promise((resolve) => lines.once("close", resolve));
            lines.on("line", (line) => {
              this.log.info(line);
              if (!client.started) {
                stderr += `${line}\n`;
              }
            });
          },
        },
        initializationFailedHandler: () => false,
        errorHandler: {
          error: (error, message, count) =>
            client.started ? ifRunning.error(error, message, count) : { action: ErrorAction.Shutdown },
          closed: () => (client.started ? ifRunning.closed() : { action: CloseAction.DoNotRestart }),
        },
      },
    );
    const ifRunning = client.createDefaultErrorHandler();
    try {
      await client.start();
    } catch (error) {
      // The connection may close before the last output of the server arrives.
      await Promise.race([stderrEnded, setTimeout(LAST_WORDS_MS)]);
      this.fail(notStarted(command, stderr, error));
      await client.dispose().catch(() => undefined);
      return;
    }
    client.started = true;
    this.client = client;
    this.show(version, { detail: shown(command) });
    client.onDidChangeState(({ newState }) => {
      if (this.client !== client) {
        return;
      }
      if (newState === State.Running) {
        this.show(version, { detail: shown(command) });
      } else if (newState === State.Stopped) {
        this.show("not running", { error: "The server ended; the log may tell why." });
      }
    });
  }

  private async activeInterpreter(): Promise<string | undefined> {
    try {
      return await this.interpreters?.active(this.folder);
    } catch (error) {
      this.log.warn(`The Python extension did not tell the interpreter: ${String(error)}`);
      return undefined;
    }
  }

  private fail(problem: Problem): void {
    const text = problem.install === undefined ? problem.text : `${problem.text} To install it: ${problem.install}`;
    this.log.error(text);
    this.show("not running", { error: problem.text });
    const copy = "Copy Install Command";
    const logs = "Show Logs";
    const actions = problem.install === undefined ? [logs] : [copy, logs];
    void vscode.window.showErrorMessage(text, ...actions).then(async (action) => {
      if (action === copy) {
        await vscode.env.clipboard.writeText(problem.install ?? "");
      } else if (action === logs) {
        this.log.show();
      }
    });
  }

  private show(text: string, more: { busy?: boolean; detail?: string; error?: string } = {}): void {
    this.status.text = `torchlint ${text}`;
    this.status.busy = more.busy ?? false;
    this.status.detail = more.error ?? more.detail;
    this.status.severity =
      more.error === undefined ? vscode.LanguageStatusSeverity.Information : vscode.LanguageStatusSeverity.Error;
  }
}

/** There is one server for all folders; the settings and interpreter of the first folder select it. */
function firstFolder(): vscode.WorkspaceFolder | undefined {
  return vscode.workspace.workspaceFolders?.find((folder) => folder.uri.scheme === "file");
}
