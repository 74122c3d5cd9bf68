import { asRequestId, digestTokens } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { EngineRequest } from '../src/core/request-state.ts'

const promptTokens = Uint8Array.of(1, 2, 3)

const createRequest = (promptDigest: Uint8Array | null): EngineRequest =>
  new EngineRequest(
    {
      ...{ requestId: asRequestId('r-1'), promptTokens, promptDigest, maxTokens: 2 },
      ...{ kvTransferParams: null, receivedAtMs: 0 },
    },
    0,
    () => new Uint8Array(),
  )

test('a connector finds the digest of the prompt, with and without output behind it', () => {
  const request = createRequest(null)
  request.appendToken(9)
  expect(request.view().promptDigest).toEqual(digestTokens(promptTokens))
  request.appendToken(9)
  expect(request.view().promptDigest).toBe(request.promptDigest)
})

test('the digest of a prompt that this engine was not given stands for it', () => {
  const given = new Uint8Array(32).fill(5)
  expect(createRequest(given).view().promptDigest).toBe(given)
})
