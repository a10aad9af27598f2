/** The interpreter chosen in the Python extension, if that extension is there. */

import { PVSC_EXTENSION_ID, PythonExtension } from "@vscode/python-extension";
import * as vscode from "vscode";

export interface Interpreters {
  /** The path of the interpreter that is active in a folder. */
  active(folder: vscode.WorkspaceFolder | undefined): Promise<string | undefined>;
  readonly onDidChange: vscode.Event<unknown>;
}

/** Undefined if the Python extension is not installed or does not start. */
export async function findInterpreters(log: vscode.LogOutputChannel): Promise<Interpreters | undefined> {
  if (vscode.extensions.getExtension(PVSC_EXTENSION_ID) === undefined) {
    log.info("The Python extension is not installed.");
    return undefined;
  }
  try {
    const { environments } = await PythonExtension.api();
    return {
      async active(folder) {
        const chosen = environments.getActiveEnvironmentPath(folder);
        const environment = await environments.resolveEnvironment(chosen);
        return environment?.executable.uri?.fsPath;
      },
      onDidChange: environments.onDidChangeActiveEnvironmentPath,
    };
  } catch (error) {
    log.warn(`The Python extension did not start: ${String(error)}`);
    return undefined;
  }
}
