/** A router between fake engines that announce push, and answers that a test gives when it wants to. */
import type { ServerResponse } from 'node:http'
import type { RouterConfig } from '../../src/index.ts'
import { sendJson, type Behaviour, type FakeEngine, type Received } from './fake-engine.ts'
import { engine, setup, type Setup } from './router-fixture.ts'

export const push = { connector: 'push', transferMode: 'push' }

export const producer = (behaviour: Behaviour, engineId = 'p0'): Promise<FakeEngine> =>
  engine('producer', behaviour, { ...push, engineId })
export const consumer = (behaviour: Behaviour, engineId = 'd0'): Promise<FakeEngine> =>
  engine('consumer', behaviour, { ...push, engineId })

export async function setupPush(
  options: {
    readonly prefill?: Behaviour
    readonly decode?: Behaviour
    readonly prefills?: FakeEngine[]
    readonly decodes?: FakeEngine[]
    readonly config?: Partial<RouterConfig>
  } = {},
): Promise<Setup> {
  const { prefill, decode, prefills, decodes, config } = options
  return setup({
    prefills: prefills ?? [await producer(prefill ?? pushedAnswer)],
    decodes: decodes ?? [await consumer(decode ?? decodedAnswer)],
    ...(config === undefined ? {} : { config }),
  })
}

/** What a push engine says when its prefill is done: of no use to anybody. */
export const pushedParams = {
  do_remote_prefill: true,
  do_remote_decode: false,
  remote_engine_id: 'p0',
  remote_num_tokens: 16,
  transfer_mode: 'push',
}

export const pushedAnswer: Behaviour = (_request, response) =>
  sendJson(response, 200, {
    choices: [{ text: 'x' }],
    kv_transfer_params: pushedParams,
    kvferry: { engineId: 'p0' },
  })

export const decodedAnswer: Behaviour = (_request, response) =>
  sendJson(response, 200, { id: 'cmpl-1', choices: [{ text: 'hello' }], kv_transfer_params: null })

/** Leaves a request open; the test answers it. */
export interface Held {
  readonly behaviour: Behaviour
  /** Of the requests so far, in order. */
  readonly open: { readonly request: Received; readonly response: ServerResponse }[]
}

export function held(): Held {
  const open: Held['open'] = []
  return { open, behaviour: (request, response) => void open.push({ request, response }) }
}

const paramsOf = ({ body }: Received) => body['kv_transfer_params'] as Record<string, unknown>

export const transferIdOf = (request: Received): unknown => paramsOf(request)['transfer_id']

/** Answers when it is this P that shall write; waits for ever for any other. */
export const decodedFrom =
  (engineId: string): Behaviour =>
  (request, response) => {
    if (paramsOf(request)['remote_engine_id'] === engineId) return decodedAnswer(request, response)
  }

export function openStream(response: ServerResponse, event = 'data: 1\n\n'): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.write(event)
}
