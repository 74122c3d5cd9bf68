import { describe, expect, test } from 'vitest'
import { parseProtocolLog } from '../src/transports.ts'

const line = (text: string) => `[1795998548.861731] [host:21826:0]   ${text}\n`

/** One table of UCX's protocol log. */
const table = (header: string, operation: string, ...configs: string[]) =>
  [
    '+--------+-------------+------------+',
    `| ${header.padEnd(34)} |`,
    `| ${operation} |`,
    '+--------+-------------+------------+',
    '| Range  | Description |   Config   |',
    '+--------+-------------+------------+',
    ...configs.map((config) => `| 0..inf | zero-copy   | ${config} |`),
    '+--------+-------------+------------+',
  ]
    .map(line)
    .join('')

const write = 'remote memory write by ucp_put* from host memory to host'
const read = 'remote memory read by ucp_get*(multi) into host memory from host'
const message = 'active message by ucp_am_send* from host memory'

describe('which transports UCX uses', () => {
  test('data and messages are told apart', () => {
    const log =
      table('p0 intra-node cfg#1', write, 'cma/memory') +
      table('p0 intra-node cfg#1', message, 'tcp/lo', 'tcp/lo')
    expect(parseProtocolLog(log, 'p0')).toEqual({ data: ['cma'], messages: ['tcp'] })
  })

  test('several at once, as on machines with RDMA', () => {
    const log = table(
      'p0 inter-node cfg#2',
      read,
      '50% on rc_mlx5/mlx5_0:1 and 50% on rc_mlx5/mlx5_1:1',
      'tcp/eth0',
    )
    expect(parseProtocolLog(log, 'p0').data).toEqual(['rc_mlx5', 'tcp'])
  })

  test('endpoints to itself and those of other agents do not count', () => {
    const log =
      table('p0 self cfg#0', write, 'cma/memory') +
      table('d0 intra-node cfg#0', write, 'sysv/memory') +
      table('p0 intra-node cfg#1', write, 'tcp/lo')
    expect(parseProtocolLog(log, 'p0')).toEqual({ data: ['tcp'], messages: [] })
  })

  test('a name that UCX cut still counts', () => {
    const log = table('engine-decode-0 intra-node cfg#1', write, 'cma/memory')
    expect(parseProtocolLog(log, 'engine-decode-0-8f3c2a51').data).toEqual(['cma'])
  })

  test('other text is no table', () => {
    const log = line('sock.c:123 UCX WARN something | tcp/lo | happened') + 'cut in the mid'
    expect(parseProtocolLog(log, 'p0')).toEqual({ data: [], messages: [] })
  })
})
