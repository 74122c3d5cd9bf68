/**
 * Runs the command line in this process over the fake programs in `fixtures/`, which are real child
 * processes.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { main } from '../src/main.ts'
import type { CompareResult } from '../src/compare/result.ts'

export const fixtureUrl = (name: string): string =>
  new URL(`fixtures/${name}`, import.meta.url).href
const fixture = (name: string): string => fileURLToPath(fixtureUrl(name))

export const fakeConnector = new URL('fixtures/fake-connector.mjs', import.meta.url).href
/** Knows the options of a history; its label is `keeper`. */
export const fakeHistoryConnector = new URL('fixtures/fake-history-connector.mjs', import.meta.url)
  .href
export const fakePaths = {
  engine: fixture('fake-engine.mjs'),
  router: fixture('fake-router.mjs'),
}
export const fakeBins = [
  ...['--engine-bin', fakePaths.engine],
  ...['--router-bin', fakePaths.router],
]
export const fakeProgramFlags = ['--connectors', fakeConnector, ...fakeBins]

/** Enough requests that the faults of the fakes (at the 20th) happen in the measured phase. */
export const shortLoad = ['--requests', '40', '--qps', '400']

export interface CommandOutcome {
  readonly exitCode: number
  readonly stdout: string
  readonly stderr: string
}

export async function runCommand(
  args: readonly string[],
  signal: AbortSignal = new AbortController().signal,
): Promise<CommandOutcome> {
  let stdout = ''
  let stderr = ''
  const exitCode = await main(args, {
    stdout: { write: (text) => (stdout += text) },
    stderr: { write: (text) => (stderr += text) },
    signal,
  })
  return { exitCode, stdout, stderr }
}

export interface FakeComparison extends CommandOutcome {
  readonly result: CompareResult | null
}

/** `compare` over the fakes; `fault` as in fake-engine.mjs. */
export async function compareFakes(
  fault: string | null,
  args: readonly string[] = [],
): Promise<FakeComparison> {
  if (fault) process.env['FAKE_FAULT'] = fault
  try {
    const command = ['compare', ...fakeProgramFlags, ...shortLoad, '--json', '-', ...args]
    const outcome = await runCommand(command)
    const result = outcome.stdout === '' ? null : (JSON.parse(outcome.stdout) as CompareResult)
    return { ...outcome, result }
  } finally {
    delete process.env['FAKE_FAULT']
  }
}

export interface FakeExperiment<Result> extends CommandOutcome {
  readonly result: Result | null
}

/** `reuse` or `load` over the fakes, with the environment that chooses their faults. */
export async function experimentOnFakes<Result>(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<FakeExperiment<Result>> {
  Object.assign(process.env, environment)
  try {
    const outcome = await runCommand([...args, ...fakeBins, '--json', '-'])
    const result = outcome.stdout === '' ? null : (JSON.parse(outcome.stdout) as Result)
    return { ...outcome, result }
  } finally {
    for (const name of Object.keys(environment)) delete process.env[name]
  }
}

/** Whether a process with this id exists (and is no zombie of somebody else's). */
export function isAlive(pid: number): boolean {
  try {
    return !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}
