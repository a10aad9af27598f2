/** The settings of the user, and those that are sent to the server. */

import * as os from "node:os";
import * as path from "node:path";

/** The settings of `package.json` that the extension itself acts on. */
export interface Settings {
  readonly enable: boolean;
  /** The torchlint executable; empty: not set. */
  readonly path: string;
  /** The Python interpreter of the environment with torchlint; empty: not set. */
  readonly interpreter: string;
  /** The settings file to use for all files, or settings as in `[tool.torchlint]`. */
  readonly configuration: string | object | undefined;
}

/** What the variables in a setting stand for. */
export interface Variables {
  /** The folder that is open, if one is. */
  readonly workspaceFolder: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** The settings, with variables replaced; `get` answers for a key without the prefix `torchlint.`. */
export function readSettings(get: (key: string) => unknown, variables: Variables): Settings {
  const text = (key: string): string => {
    const value = get(key);
    return typeof value === "string" ? expand(value.trim(), variables) : "";
  };
  return {
    enable: get("enable") !== false,
    path: text("path"),
    interpreter: text("interpreter"),
    configuration: readConfiguration(get("configuration"), variables),
  };
}

function readConfiguration(value: unknown, variables: Variables): string | object | undefined {
  if (typeof value === "string" && value.trim()) {
    // The server may run in another folder, so it receives an absolute path.
    return path.resolve(variables.workspaceFolder ?? os.homedir(), expand(value.trim(), variables));
  }
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : undefined;
}

/** Replaces `~`, `${userHome}`, `${workspaceFolder}` and `${env:NAME}`, as VS Code does in its own settings. */
export function expand(text: string, variables: Variables): string {
  return text
    .replace(/^~(?=$|[/\\])/, () => os.homedir())
    .replace(/\$\{(userHome|workspaceFolder|env:([^}]+))\}/g, (whole, name: string, variable?: string) => {
      if (variable !== undefined) {
        return variables.env[variable] ?? "";
      }
      return name === "userHome" ? os.homedir() : (variables.workspaceFolder ?? whole);
    });
}

/** What is sent to the server when it starts, without unset settings. */
export function initializationOptions(settings: Settings): object {
  return { settings: settings.configuration === undefined ? {} : { configuration: settings.configuration } };
}
