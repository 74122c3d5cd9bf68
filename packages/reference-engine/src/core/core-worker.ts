/**
 * Entry of the core's own thread: the same core as inline, over NIXL, spoken to by messages. Started by
 * `worker-core.ts` only. Ends by itself once everything is closed.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { assert } from '@kvferry/connector-api'
import { createLogger } from '@kvferry/runtime'
import { startInlineCore, type InlineCore } from './inline-core.ts'
import { createNixlPorts } from './nixl-ports.ts'
import {
  toPlainError,
  type CoreWorkerData,
  type FromCore,
  type Question,
  type ToCore,
} from './worker-messages.ts'

assert(parentPort !== null, 'the core worker was not started as a worker')
const port = parentPort
const { config, logLevel } = workerData as CoreWorkerData
const send = (message: FromCore): void => port.postMessage(message)

function ask(core: InlineCore, question: Question): Promise<unknown> {
  switch (question) {
    case 'stats':
      return core.stats()
    case 'metrics':
      return core.metricsText()
    case 'debug':
      return core.debug()
  }
}

async function close(core: InlineCore, deadlineMs: number): Promise<void> {
  await core.close({ deadlineMs })
  send({ kind: 'closed' })
  port.close()
}

function receive(core: InlineCore, message: ToCore): void {
  const fail = (error: unknown): void => send({ kind: 'fatal', error: toPlainError(error) })
  switch (message.kind) {
    case 'submit':
      core.submit(message.submit)
      return
    case 'abort':
      core.abort(message.requestId)
      return
    case 'ask':
      ask(core, message.question).then(
        (value) => send({ kind: 'answer', id: message.id, value }),
        fail,
      )
      return
    case 'close':
      close(core, message.deadlineMs).catch(fail)
      return
  }
}

try {
  const logger = createLogger({ name: config.engineId, level: logLevel })
  const core = await startInlineCore(await createNixlPorts(config, logger))
  core.setListener({
    onEvents: (events) => send({ kind: 'events', events }),
    onFatal: (error) => send({ kind: 'fatal', error: toPlainError(error) }),
  })
  port.on('message', (message: ToCore) => receive(core, message))
  send({ kind: 'ready', peer: core.peer })
} catch (error) {
  send({ kind: 'refused', error: toPlainError(error) })
  port.close()
}
