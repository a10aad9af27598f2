/** Messages for when the server does not start: the problem, and what to do. */

import { type Answer, type Attempt, type Command, lastLine } from "./command";

export interface Problem {
  readonly text: string;
  /** A command line that fixes the problem, if there is one. */
  readonly install?: string;
}

const REQUIREMENT = "pygls>=2";
/** torchlint is not on PyPI yet. */
const FROM_CHECKOUT = "In a checkout of torchlint: pip install \".[server]\"";

/** Why none of the attempts found torchlint. */
export function notFound(attempts: readonly Attempt[]): Problem {
  const broken = attempts.find(({ answer }) => answer.kind === "failed") ?? attempts[0];
  if (broken === undefined) {
    return { text: "No torchlint to run." };
  }
  const { command, answer } = broken;
  const set = command.origin === "torchlint.path" || command.origin === "torchlint.interpreter";
  if (answer.kind === "failed") {
    return { text: `${shown(command)} --version failed: ${answer.reason}` };
  }
  if (set && answer.kind === "missing") {
    return { text: `${command.origin}: ${command.executable} cannot be run. Correct the setting or remove it.` };
  }
  if (set) {
    return {
      text: `${command.origin}: torchlint is not installed for ${command.executable}. ${FROM_CHECKOUT}`,
    };
  }
  if (command.origin === "environment") {
    return {
      text:
        `torchlint is neither installed for ${command.executable}, the selected interpreter, nor found on PATH. ` +
        FROM_CHECKOUT,
    };
  }
  return {
    text:
      "torchlint was not found on PATH, and no Python interpreter is selected. " +
      `Install it, select an interpreter that has it, or set torchlint.path. ${FROM_CHECKOUT}`,
  };
}

/** Why the server ended before it answered; `stderr` is what it wrote. */
export function notStarted(command: Command, stderr: string, error: unknown): Problem {
  if (/pygls|lsprotocol/.test(stderr)) {
    return { text: `The language server of ${shown(command)} needs pygls.`, install: installFor(command) };
  }
  const reason = lastLine(stderr) || (error instanceof Error ? error.message : String(error));
  return { text: `${shown(command)} server did not start: ${reason}` };
}

/** The command line that installs pygls where `command` looks for it. */
export function installFor(command: Command): string {
  const pip = command.args.length > 0 ? `${quoted(command.executable)} -m pip` : "pip";
  return `${pip} install "${REQUIREMENT}"`;
}

/** An answer, for the log. */
export function told(answer: Answer): string {
  switch (answer.kind) {
    case "version":
      return `version ${answer.version}`;
    case "missing":
      return "cannot be run";
    case "not-installed":
      return "torchlint is not installed";
    case "failed":
      return answer.reason;
  }
}

/** A command as it would be typed. */
export function shown(command: Command): string {
  return [quoted(command.executable), ...command.args].join(" ");
}

function quoted(word: string): string {
  return /\s/.test(word) ? `"${word}"` : word;
}
