import assert from "node:assert/strict";
import { test } from "node:test";

import { latest } from "../src/latest";

function controlled() {
  const ends: ((error?: Error) => void)[] = [];
  const task = latest(
    () =>
      new Promise<void>((resolve, reject) => {
        ends.push((error) => {
          if (error === undefined) {
            resolve();
          } else {
            reject(error);
          }
        });
      }),
  );
  return { task, ends };
}

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("calls during a run are answered by one further run", async () => {
  const { task, ends } = controlled();
  const first = task();
  const others = [task(), task(), task()];
  assert.equal(ends.length, 1);
  ends[0]?.();
  await first;
  await settled();
  assert.equal(ends.length, 2);
  ends[1]?.();
  await Promise.all(others);
  assert.equal(ends.length, 2);
});

test("a run that failed does not stand in the way of the next", async () => {
  const { task, ends } = controlled();
  const first = task();
  const second = task();
  ends[0]?.(new Error("no"));
  await assert.rejects(first, /no/);
  await settled();
  ends[1]?.();
  await second;
  const third = task();
  ends[2]?.();
  await third;
  assert.equal(ends.length, 3);
});
