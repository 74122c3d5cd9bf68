/**
 * Two hosts on one machine: network namespaces with an interface `kv0` between them (203.0.113.1 and .2, as in
 * docs/how-to/two-nodes.md), and an interface each to this process's namespace, over
 * which tests and the router reach their HTTP ports. Needs root; everything goes away with `close`.
 */
import { execFileSync } from 'node:child_process'

export interface Host {
  readonly name: 'p' | 'd'
  readonly address: string
  /** Put before a command to run it there. */
  readonly launcher: readonly string[]
}

export interface TwoHosts {
  readonly p: Host
  readonly d: Host
  /** Output of a command on that host. */
  run(host: Host, ...command: readonly string[]): string
  close(): void
}

const ip = (...args: readonly string[]): string =>
  execFileSync('ip', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** Why two hosts can't be had here, or null. */
export function reasonAgainstTwoHosts(): string | null {
  if (process.getuid?.() !== 0) return 'not root'
  const probe = `kvferry-probe-${process.pid}`
  try {
    ip('netns', 'add', probe)
    try {
      ip('-n', probe, 'link', 'add', 'probe0', 'type', 'veth', 'peer', 'name', 'probe1')
    } finally {
      ip('netns', 'del', probe)
    }
    return null
  } catch (error) {
    return `no network namespaces: ${String((error as { stderr?: string }).stderr ?? error).trim()}`
  }
}

/** @throws Error when the system refuses; what was made until then is taken down again. */
export function openTwoHosts(): TwoHosts {
  const namespaces = { p: `kvferry-p-${process.pid}`, d: `kvferry-d-${process.pid}` }
  const close = (): void => {
    for (const namespace of Object.values(namespaces)) {
      try {
        ip('netns', 'del', namespace)
      } catch {
        // Not made, or gone already.
      }
    }
  }
  const host = (name: 'p' | 'd', address: string): Host => ({
    name,
    address,
    launcher: ['ip', 'netns', 'exec', namespaces[name]],
  })
  const hosts = { p: host('p', '203.0.113.1'), d: host('d', '203.0.113.2') }
  process.once('exit', close)
  try {
    for (const namespace of Object.values(namespaces)) ip('netns', 'add', namespace)
    ip('-n', namespaces.p, 'link', 'add', 'kv0', 'type', 'veth', 'peer', 'name', 'kv1')
    ip('-n', namespaces.p, 'link', 'set', 'kv1', 'netns', namespaces.d)
    ip('-n', namespaces.d, 'link', 'set', 'kv1', 'name', 'kv0')
    for (const { name, address } of [hosts.p, hosts.d]) connect(namespaces[name], name, address)
  } catch (error) {
    close()
    throw error
  }
  return {
    ...hosts,
    run: (at, ...command) => {
      const [program, ...args] = [...at.launcher, ...command] as [string, ...string[]]
      return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })
    },
    close() {
      process.off('exit', close)
      close()
    },
  }
}

/** The host's own interface, and the way between it and this namespace. */
function connect(namespace: string, name: 'p' | 'd', address: string): void {
  const [here, there] =
    name === 'p' ? ['198.51.100.1', '198.51.100.2'] : ['198.51.100.5', '198.51.100.6']
  const outside = `kvf${name}${process.pid}`.slice(0, 15)
  // What a host sends to its own address passes through `lo`, as on any machine.
  ip('-n', namespace, 'link', 'set', 'lo', 'up')
  ip('-n', namespace, 'addr', 'add', `${address}/24`, 'dev', 'kv0')
  ip('-n', namespace, 'link', 'set', 'kv0', 'up')
  ip('link', 'add', outside, 'type', 'veth', 'peer', 'name', 'ctl0', 'netns', namespace)
  ip('addr', 'add', `${here}/30`, 'dev', outside)
  ip('link', 'set', outside, 'up')
  ip('-n', namespace, 'addr', 'add', `${there}/30`, 'dev', 'ctl0')
  ip('-n', namespace, 'link', 'set', 'ctl0', 'up')
  ip('route', 'add', `${address}/32`, 'dev', outside)
}

/** Addresses of listening TCP and bound UDP sockets on that host. */
export function listenersOn(hosts: TwoHosts, host: Host): string[] {
  return hosts
    .run(host, 'ss', '-H', '-l', '-n', '-t', '-u')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => line.trim().split(/\s+/)[4] as string)
}
