/**
 * Another checkout of this project, built: its engine and router run beside this one's, on the same requests
 * in turn. Looks at it once, before anything is measured.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { checkoutCommit } from '../lib/environment.ts'
import { safeName } from '../lib/safe-name.ts'
import { limits } from '../limits.ts'
import { UsageError } from '../usage-error.ts'

export interface Program {
  readonly script: string
  /** Whether it ends by itself when the harness is gone. Builds that can't are started without. */
  readonly canStopOnStdinEnd: boolean
}

export interface Build {
  /** Behind the @ of a label. */
  readonly name: string
  readonly commit: string | null
  readonly engine: Program
  readonly router: Program
}

function readProgram(directory: string, path: string): Program {
  const script = join(directory, path)
  const refuse = (what: string): never => {
    throw new UsageError(`--against ${directory}: ${what}; build that checkout (npm run setup)`)
  }
  if (!existsSync(script)) return refuse(`there is no ${path}`)
  try {
    const help = execFileSync(process.execPath, [script, '--help'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: limits.programHelpTimeoutMs,
    })
    return { script, canStopOnStdinEnd: help.includes('--stop-on-stdin-end') }
  } catch (error) {
    // Of a stack, the line that says what is wrong.
    const lines = (error as Error).message.split('\n')
    return refuse(`${path} doesn't run: ${lines.find((line) => /Error\b/.test(line)) ?? lines[0]}`)
  }
}

/** @throws UsageError where no build of this project is. */
export function readBuild(path: string): Build {
  const directory = resolve(path)
  return {
    name: safeName(basename(directory)),
    commit: checkoutCommit(directory),
    engine: readProgram(directory, 'packages/reference-engine/bin/kvferry-engine.mjs'),
    router: readProgram(directory, 'packages/router/bin/kvferry-router.mjs'),
  }
}
