/**
 * docs/how-to/two-nodes.md, run as it stands: prefill and decode engine on two hosts (network namespaces), KV over
 * TCP, mutual TLS, router on a third. Then strangers at the door.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createChildGroup, type ChildGroup, type TrackedChild } from '@kvferry/benchmarks'
import { complete, promptOf } from '../src/completions.ts'
import { binOf, type EngineStats } from '../src/deployment.ts'
import { isLoopback } from '../src/process-facts.ts'
import {
  listenersOn,
  openTwoHosts,
  reasonAgainstTwoHosts,
  type Host,
  type TwoHosts,
} from '../src/two-hosts.ts'
import { waitUntil } from '../src/wait-until.ts'

const page = readFileSync(new URL('../../../docs/how-to/two-nodes.md', import.meta.url), 'utf8')
const kvferry = binOf('@kvferry/runtime', 'kvferry')
const reason = reasonAgainstTwoHosts()
/** A machine that must have everything has no reason to skip. */
const isRequired = process.env['KVFERRY_REQUIRE_NIXL'] === '1'

/** The file that the page gives under this name. */
function fileOnPage(name: string): string {
  const blocks = [...page.matchAll(/```yaml\n(# (\S+)\n[^]*?)```/g)]
  const found = blocks.find(([, , title]) => title === name)
  if (found === undefined) throw new Error(`the page has no file ${name}`)
  return found[1] as string
}

/** The arguments of the page's one command line that holds all these parts. */
function commandOnPage(...parts: readonly string[]): string[] {
  const lines = page.split('\n').filter((line) => parts.every((part) => line.includes(part)))
  const line = lines.find((candidate) => candidate.startsWith('npx '))
  if (line === undefined) throw new Error(`the page has no command with ${parts.join(' and ')}`)
  return line.split(/\s+/).slice(2)
}

let directory: string
let hosts: TwoHosts
let group: ChildGroup
let router: TrackedChild
let oracle: TrackedChild

const runKvferry = (...args: readonly string[]) =>
  execFileSync(process.execPath, [kvferry, ...args], { cwd: directory, encoding: 'utf8' })

/** Exit code and complaint of `kvferry ping` on the decode node. */
function pingFromD(...args: readonly string[]): { readonly code: number; readonly text: string } {
  const command = [process.execPath, kvferry, 'ping', '203.0.113.1:5600', ...args]
  try {
    return { code: 0, text: hosts.run(hosts.d, ...command) }
  } catch (error) {
    const { status, stderr } = error as { status: number; stderr: string }
    return { code: status, text: stderr }
  }
}

const startEngine = (host: Host, file: string): Promise<TrackedChild> =>
  group.start({
    name: file,
    script: binOf('@kvferry/reference-engine', 'kvferry-engine'),
    args: [...commandOnPage('kvferry-engine', file), '--stop-on-stdin-end'],
    launcher: host.launcher,
    cwd: directory,
    // The two hosts share a kernel, over which UCX would find shorter ways than a network.
    env: { UCX_TLS: 'tcp', UCX_NET_DEVICES: 'kv0' },
  })

async function stats(url: string): Promise<EngineStats & { readonly transports: string[] }> {
  const response = await fetch(`${url}/kvferry/v1/stats`)
  return (await response.json()) as EngineStats & { readonly transports: string[] }
}
async function refusedAtP(where: string): Promise<number> {
  const text = await (await fetch('http://203.0.113.1:8001/metrics')).text()
  const line = `kv_messages_refused_total{where="${where}"} `
  return Number(
    text
      .split('\n')
      .find((candidate) => candidate.startsWith(line))
      ?.slice(line.length) ?? 0,
  )
}

beforeAll(async () => {
  if (reason !== null) {
    if (!isRequired) return
    throw new Error(`two hosts are required: ${reason}`)
  }
  directory = mkdtempSync(join(tmpdir(), 'kvferry-two-nodes-'))
  hosts = openTwoHosts()
  group = createChildGroup()
  runKvferry(...commandOnPage('kvferry certs'))
  for (const file of ['p0.yaml', 'd0.yaml']) writeFileSync(join(directory, file), fileOnPage(file))
  runKvferry(...commandOnPage('check-config'))
  ;[, , oracle] = await Promise.all([
    startEngine(hosts.p, 'p0.yaml'),
    startEngine(hosts.d, 'd0.yaml'),
    group.start({
      name: 'oracle',
      script: binOf('@kvferry/reference-engine', 'kvferry-engine'),
      args: ['--role=both', '--port=0', '--stop-on-stdin-end'],
    }),
  ])
  router = await group.start({
    name: 'router',
    script: binOf('@kvferry/router', 'kvferry-router'),
    args: [...commandOnPage('kvferry-router').slice(0, -1), '0', '--stop-on-stdin-end'],
  })
  await waitUntil('the router is ready', async () => {
    const response = await fetch(`${router.ready.url}/ready`)
    if (response.status !== 200) throw new Error(await response.text())
    return true
  })
}, 120_000)
afterAll(async () => {
  await group?.stop()
  hosts?.close()
  if (directory !== undefined) rmSync(directory, { recursive: true })
}, 60_000)

describe.skipIf(reason !== null && !isRequired)(
  `two nodes${reason === null ? '' : ` (skipped: ${reason})`}`,
  () => {
    test('serve requests whose every KV byte was verified, over TCP', async () => {
      const requests = Array.from({ length: 8 }, (_, index) => ({
        prompt: promptOf(60 + 90 * index, index),
        maxTokens: 6,
      }))
      const expected = await Promise.all(
        requests.map((request) => complete(oracle.ready.url, request)),
      )
      const got = await Promise.all(requests.map((request) => complete(router.ready.url, request)))
      expect(got).toEqual(expected)
      expect(expected.every(({ kind }) => kind === 'text')).toBe(true)
      const { transports, verification } = await stats('http://203.0.113.2:8002')
      expect(verification.blocksLoaded).toBeGreaterThan(100)
      expect(verification.mismatchedBlocks).toBe(0)
      expect(transports.join()).toMatch(/tcp/)
      expect(await refusedAtP('side-channel-certificate')).toBe(0)
    })

    test('use nothing on loopback', () => {
      for (const host of [hosts.p, hosts.d]) {
        const listeners = listenersOn(hosts, host)
        expect(listeners).toContain(`${host.address}:5600`)
        expect(
          listeners.filter((address) => isLoopback(address) || address.startsWith('0.0.0.0')),
        ).toEqual([])
      }
    })

    test('let nobody in: not plainly, not with another CA, not under a name that isn’t listed', async () => {
      const plain = pingFromD('--insecure')
      expect(plain.code).toBe(1)
      expect(plain.text).toMatch(/ERR_KV_PEER_INCOMPATIBLE: engine "p0" speaks mutual TLS/)

      runKvferry('certs', '--dir', 'foreign', '--engine', 'd0')
      runKvferry('certs', '--dir', 'tls', '--engine', 'probe')
      const files = (folder: string, name: string, ca = 'tls') =>
        [
          '--ca',
          `${ca}/ca.pem`,
          '--cert',
          `${folder}/${name}.pem`,
          '--key',
          `${folder}/${name}.key`,
        ].map((part) => (part.startsWith('--') ? part : join(directory, part)))
      const foreign = pingFromD(...files('foreign', 'd0'))
      expect(foreign.code).toBe(1)
      expect(foreign.text).toMatch(
        /"p0" refuses the certificate for engine "d0" .*not issued by the CA/,
      )
      expect(await refusedAtP('side-channel-certificate')).toBe(1)

      const unlisted = pingFromD(...files('tls', 'probe'))
      expect(unlisted.code).toBe(1)
      expect(unlisted.text).toMatch(/"probe" is not among the configured peers of engine "p0"/)

      // Whoever was turned away has harmed nobody.
      const request = { prompt: promptOf(200, 77), maxTokens: 4 }
      expect(await complete(router.ready.url, request)).toEqual(
        await complete(oracle.ready.url, request),
      )
    })
  },
)
