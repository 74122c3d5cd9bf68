/** `POST /v1/chat/completions` over a real socket: the same tokens as its prompt written out, in chat's shape. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startEngine, type RunningEngine } from '../src/index.ts'
import { errorOf, inlineOptions, post } from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

let engine: RunningEngine
beforeAll(async () => {
  engine = await startEngine({ ...inlineOptions(createFabric()), engineId: 'e0', maxModelLen: 512 })
})
afterAll(() => engine.close())

const chat = (body: object) =>
  fetch(`${engine.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })

const messages = [
  { role: 'system', content: 'be brief' },
  {
    role: 'user',
    content: [
      { type: 'text', text: 'hel' },
      { type: 'text', text: 'lo' },
    ],
  },
]
const prompt = 'system: be brief\nuser: hello\nassistant: '

interface CompletionText {
  choices: { text: string }[]
}

describe('POST /v1/chat/completions', () => {
  it('answers in the shape of OpenAI with the text of the same prompt', async () => {
    const plain = (await (await post(engine, { prompt, max_tokens: 5 })).json()) as CompletionText
    const answer = (await (await chat({ messages, max_completion_tokens: 5 })).json()) as object
    expect(answer).toMatchObject({
      id: expect.stringMatching(/^chatcmpl-/) as unknown,
      object: 'chat.completion',
      choices: [
        {
          index: 0,
          message: { role: 'assistant', content: plain.choices[0]?.text },
          finish_reason: 'length',
        },
      ],
      usage: { prompt_tokens: prompt.length, completion_tokens: 5 },
    })
  })

  it('streams deltas, the role in the first only', async () => {
    const plain = (await (await post(engine, { prompt, max_tokens: 3 })).json()) as CompletionText
    const text = await (await chat({ messages, max_tokens: 3, stream: true })).text()
    const events = text.split('\n\n').filter((event) => event !== '')
    expect(events.pop()).toBe('data: [DONE]')
    const chunks = events.map((event) => JSON.parse(event.slice(6)) as Record<string, unknown>)
    const deltas = chunks.map(({ choices }) => (choices as { delta: object }[])[0]!.delta)
    expect(deltas.map((delta) => ('role' in delta ? delta.role : null))).toEqual([
      'assistant',
      null,
      null,
      null,
    ])
    expect(deltas.map((delta) => ('content' in delta ? delta.content : '')).join('')).toBe(
      plain.choices[0]?.text,
    )
    expect(chunks.at(-1)).toMatchObject({
      object: 'chat.completion.chunk',
      choices: [{ finish_reason: 'length' }],
    })
  })

  it.each([
    [{ messages: [] }, 'messages'],
    [{ messages: [{ role: 'wizard', content: 'x' }] }, 'messages.0.role'],
    [{ messages: [{ role: 'user', content: 7 }] }, 'must be a string or a list of text parts'],
    [{ messages: [{ role: 'user', content: [{ type: 'image_url' }] }] }, 'image_url'],
    [{ messages, tools: [{}] }, 'tools'],
    [{ messages, n: 2 }, 'n above 1'],
  ])('refuses %j, naming what is wrong', async (body, named) => {
    const { message, status } = await errorOf(await chat(body))
    expect(status).toBe(400)
    expect(message).toContain(named)
  })
})
