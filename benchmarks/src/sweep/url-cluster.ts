/**
 * Servers that are there already, given by `--url LABEL=URL`: anything that speaks OpenAI's completions API,
 * such as a router before real vLLM. Nothing is started, and nothing of theirs but the answers is seen.
 */
import type { Clock } from '@kvferry/connector-api'
import type { StartCluster } from '../compare/cluster.ts'
import { getJson } from '../lib/http.ts'
import { limits } from '../limits.ts'

/** @throws Error when the server doesn't list a model before the deadline, the signal's reason. */
async function waitForModels(
  url: string,
  options: { clock: Clock; deadlineMs: number; signal: AbortSignal },
): Promise<void> {
  const { clock, deadlineMs, signal } = options
  const giveUpAtMs = clock.now() + deadlineMs
  let last = 'no answer'
  for (;;) {
    signal.throwIfAborted()
    try {
      const { status } = await getJson(`${url}/v1/models`)
      if (status === 200) return
      last = `HTTP ${status}`
    } catch (error) {
      last = error instanceof Error ? error.message : String(error)
    }
    if (clock.now() >= giveUpAtMs) {
      throw new Error(`${url}/v1/models: not ready after ${deadlineMs / 1_000} s: ${last}`)
    }
    await new Promise<void>((resolve) => clock.after(limits.pollIntervalMs, resolve))
  }
}

/** `url` without a trailing `/v1` or slash. */
export function urlCluster(
  url: string,
  options: { readonly clock: Clock; readonly readyTimeoutMs: number },
): StartCluster {
  return async (_spec, signal) => {
    const { clock, readyTimeoutMs: deadlineMs } = options
    await waitForModels(url, { clock, deadlineMs, signal })
    return {
      entryUrl: url,
      hasRouter: false,
      tokens: 'ids',
      engines: [],
      pids: [],
      failed: new Promise<never>(() => {}),
      logTails: () => '',
      close: async () => {},
    }
  }
}
