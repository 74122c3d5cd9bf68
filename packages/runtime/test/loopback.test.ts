/** What counts as staying on this machine: it decides who may come in without certificates. */
import { expect, it } from 'vitest'
import { isLoopbackHost } from '../src/loopback.ts'

it.each([
  '127.0.0.1',
  '127.255.0.9',
  '::1',
  '0:0:0:0:0:0:0:1',
  '::ffff:127.0.0.1',
  'localhost',
  'LOCALHOST',
])('%s is loopback', (host) => expect(isLoopbackHost(host)).toBe(true))

it.each([
  '0.0.0.0',
  '::',
  '128.0.0.1',
  '10.0.0.1',
  '::ffff:10.0.0.1',
  '::2',
  '',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  '127.1',
  '2130706433',
])('%s is not', (host) => expect(isLoopbackHost(host)).toBe(false))
