/**
 * Which addresses stay on this machine. Decides what may be bound and who may come in without
 * certificates, so names that a resolver could point elsewhere don't count, except `localhost`.
 */
import { BlockList, isIP } from 'node:net'

const loopback = new BlockList()
loopback.addSubnet('127.0.0.0', 8, 'ipv4')
loopback.addAddress('::1', 'ipv6')

/** True for 127.0.0.0/8, ::1, their IPv4-mapped forms, and `localhost`. */
export function isLoopbackHost(host: string): boolean {
  if (host.toLowerCase() === 'localhost') return true
  const family = isIP(host)
  if (family === 0) return false
  return loopback.check(host, family === 4 ? 'ipv4' : 'ipv6')
}
