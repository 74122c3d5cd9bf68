/** The core on the caller's own thread: for tests and for engines over the in-memory fabric. */
import type { CoreClient, CoreEvent, CoreListener } from './core-messages.ts'
import type { CorePorts } from './core-ports.ts'
import { describeDebug, describeMetrics, describePeer, describeStats } from './core-views.ts'
import { createCore, type AssembledCore } from './create-core.ts'

/** What arrives before the HTTP side listens; nothing can, since it submits nothing before. */
const noListener: CoreListener = { onEvents() {}, onFatal() {} }

export interface InlineCore extends CoreClient {
  /** For tests that look inside. */
  readonly parts: AssembledCore
}

/** @throws ConnectorError as `createCore`. */
export async function startInlineCore(ports: CorePorts): Promise<InlineCore> {
  let listener = noListener
  const parts = await createCore(ports, {
    onEvents: (events: readonly CoreEvent[]) => listener.onEvents(events),
    onFatal: (error) => listener.onFatal(error),
  })
  return {
    parts,
    peer: describePeer(parts),
    submit: (request) => parts.engine.submit(request),
    abort: (requestId) => parts.engine.abort(requestId),
    setListener(next) {
      listener = next
    },
    stats: async () => describeStats(parts),
    metricsText: () => describeMetrics(parts),
    debug: async () => describeDebug(parts),
    close: (options) => parts.close(options),
  }
}
