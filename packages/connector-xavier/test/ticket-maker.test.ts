import { asRequestId } from '@kvferry/connector-api'
import { expect, test } from 'vitest'
import { TicketMaker } from '../src/ticket-maker.ts'

const key = (fill: number): Uint8Array => new Uint8Array(32).fill(fill)
const id = asRequestId('r1')

test('no two tickets of a life are the same, nor those of two lives', () => {
  const [one, same, other] = [key(1), key(1), key(2)].map((bits) => new TicketMaker(bits))
  const tickets = [one!.make(id), one!.make(id), one!.make(asRequestId('r2')), other!.make(id)]
  expect(new Set(tickets).size).toBe(4)
  for (const ticket of tickets) expect(ticket).toMatch(/^[0-9a-f]{32}$/)
  // Whoever has the key and hears of the same requests makes the same.
  expect([same!.make(id), same!.make(id)]).toEqual(tickets.slice(0, 2))
})
