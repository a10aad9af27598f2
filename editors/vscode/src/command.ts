/** Which torchlint to run. */

import { execFile } from "node:child_process";

import type { Settings } from "./settings";

/** Where a command comes from; the first two are settings. */
export type Origin = "torchlint.path" | "torchlint.interpreter" | "environment" | "PATH";

/** A way to run torchlint: the executable and what comes before torchlint's own arguments. */
export interface Command {
  readonly executable: string;
  readonly args: readonly string[];
  readonly origin: Origin;
}

/** The answer of a command to `--version`. */
export type Answer =
  | { readonly kind: "version"; readonly version: string }
  /** There is no such executable. */
  | { readonly kind: "missing" }
  /** The interpreter runs, but has no torchlint. */
  | { readonly kind: "not-installed" }
  | { readonly kind: "failed"; readonly reason: string };

export interface Attempt {
  readonly command: Command;
  readonly answer: Answer;
}

const PROBE_TIMEOUT_MS = 30_000;

/**
 * The commands to try, in order. What is set is tried alone: a wrong setting is an error to show, not one to work
 * around. `activeInterpreter` is the one chosen in the Python extension.
 */
export function candidates(settings: Settings, activeInterpreter: string | undefined): Command[] {
  if (settings.path) {
    return [{ executable: settings.path, args: [], origin: "torchlint.path" }];
  }
  if (settings.interpreter) {
    return [ofInterpreter(settings.interpreter, "torchlint.interpreter")];
  }
  const onPath: Command = { executable: "torchlint", args: [], origin: "PATH" };
  return activeInterpreter ? [ofInterpreter(activeInterpreter, "environment"), onPath] : [onPath];
}

function ofInterpreter(interpreter: string, origin: Origin): Command {
  return { executable: interpreter, args: ["-m", "torchlint"], origin };
}

/** Asks the commands for their version until one answers. If one does, it is the last attempt. */
export async function firstThatRuns(
  commands: readonly Command[],
  ask: (command: Command) => Promise<Answer>,
): Promise<Attempt[]> {
  const attempts: Attempt[] = [];
  for (const command of commands) {
    const answer = await ask(command);
    attempts.push({ command, answer });
    if (answer.kind === "version") {
      break;
    }
  }
  return attempts;
}

/**
 * Runs `torchlint --version`. `folder` should hold no Python file: `python -m` looks for modules there first, and a
 * project's own `logging.py` or `torchlint/` must not stand in for the real one.
 */
export function askVersion(command: Command, folder: string): Promise<Answer> {
  return new Promise((resolve) => {
    execFile(
      command.executable,
      [...command.args, "--version"],
      { cwd: folder, timeout: PROBE_TIMEOUT_MS, windowsHide: true },
      (error, stdout, stderr) => {
        resolve(readVersion(error, stdout, stderr));
      },
    );
  });
}

/** What the outcome of `torchlint --version` means. */
export function readVersion(
  error: (Error & { code?: unknown; killed?: boolean }) | null,
  stdout: string,
  stderr: string,
): Answer {
  const version = /^torchlint (\S+)/.exec(stdout)?.[1];
  if (error === null && version !== undefined) {
    return { kind: "version", version };
  }
  if (error?.code === "ENOENT" || error?.code === "EACCES") {
    return { kind: "missing" };
  }
  if (/No module named '?torchlint'?\s*$/m.test(stderr)) {
    return { kind: "not-installed" };
  }
  if (error?.killed) {
    return { kind: "failed", reason: "it did not answer in time" };
  }
  return { kind: "failed", reason: lastLine(stderr) || lastLine(stdout) || (error?.message ?? "it said nothing") };
}

/** The last line that is not empty. */
export function lastLine(text: string): string {
  return text.trimEnd().split(/\r?\n/).at(-1)?.trim() ?? "";
}
