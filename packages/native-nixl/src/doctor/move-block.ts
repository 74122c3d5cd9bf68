/**
 * Two processes, one block there, one block back, both checked. The parent only passes addresses on and
 * collects verdicts, so that the bytes can't have come from it.
 */
import { fork, type ChildProcess } from 'node:child_process'
import type { AgentTransports } from '../transports.ts'
import type { SideMessage, SideName } from './block.ts'

/** First use of UCX in a process takes half a second; a loaded machine takes its time. */
const moveTimeoutMs = 60_000
/** Kept of the children's output, for the failure. */
const outputSizeCharsMax = 4_096

export interface MoveResult {
  /** Null: both directions are right. */
  readonly failure: string | null
  readonly readUs: number
  readonly writeUs: number
  readonly transports: AgentTransports
}

type Verdict = Extract<SideMessage, { kind: 'moved' }>

/** @throws the signal's reason when aborted. Ends both processes in every case. */
export async function moveBlock(transports: string, signal?: AbortSignal): Promise<MoveResult> {
  signal?.throwIfAborted()
  const children: ChildProcess[] = []
  let output = ''
  const start = (side: SideName) => {
    // The command itself, as a hidden subcommand: what is tested is what is installed.
    const child = fork(process.argv[1]!, ['doctor-side', side], {
      serialization: 'advanced',
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      env: { ...process.env, UCX_TLS: transports },
    })
    const keep = (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-outputSizeCharsMax)
    }
    child.stdout?.on('data', keep)
    child.stderr?.on('data', keep)
    children.push(child)
    return child
  }
  try {
    const { moved, failure } = await talk(start('target'), start('initiator'), signal)
    return {
      failure: failure === null ? null : `${failure}${output ? `; output: ${output.trim()}` : ''}`,
      readUs: moved?.readUs ?? 0,
      writeUs: moved?.writeUs ?? 0,
      transports: moved?.transports ?? { data: [], messages: [] },
    }
  } finally {
    await Promise.all(children.map(end))
  }
}

interface Talk {
  readonly moved: Verdict | null
  readonly failure: string | null
}

function talk(target: ChildProcess, initiator: ChildProcess, signal?: AbortSignal): Promise<Talk> {
  return new Promise((resolve, reject) => {
    let moved: Verdict | null = null
    let hasArrived = false
    let isWaiting = false
    let order: SideMessage | null = null
    const timer = setTimeout(
      () => settle(`no answer within ${moveTimeoutMs / 1_000} s`),
      moveTimeoutMs,
    )
    const abort = () => {
      clearTimeout(timer)
      reject(signal?.reason as Error)
    }
    signal?.addEventListener('abort', abort, { once: true })
    const settle = (failure: string | null) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      resolve({ moved, failure })
    }
    const onMessage = (message: SideMessage) => {
      switch (message.kind) {
        case 'ready':
          order = message
          break
        case 'waiting':
          isWaiting = true
          break
        case 'moved':
          moved = message
          if (!message.isReadRight) return settle('the block that was read is wrong')
          break
        case 'arrived':
          hasArrived = true
          if (!message.isRight) return settle('the block that was written is wrong')
          break
        case 'failed':
          return settle(message.reason)
      }
      if (order !== null && isWaiting) {
        initiator.send(order)
        isWaiting = false
      }
      if (moved !== null && hasArrived) settle(null)
    }
    for (const child of [target, initiator]) {
      child.on('message', onMessage)
      child.once('error', (error) => settle(error.message))
      child.once('exit', (code, by) => settle(`a process ended early (${code ?? by})`))
    }
  })
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}
