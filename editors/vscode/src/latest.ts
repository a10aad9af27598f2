/** One task that may be asked for again while it runs. */

/**
 * Wraps `task` so that it never runs twice at once; calls made during a run are answered by one further run, which
 * sees what has changed meanwhile.
 */
export function latest(task: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined;
  let waiting: Promise<void> | undefined;
  const run = (): Promise<void> => {
    running = task().finally(() => {
      running = undefined;
    });
    return running;
  };
  return () => {
    if (running === undefined) {
      return run();
    }
    waiting ??= running
      .catch(() => undefined)
      .then(() => {
        waiting = undefined;
        return run();
      });
    return waiting;
  };
}
