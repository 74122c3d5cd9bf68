/** What `doctor` and `info` say to people. Pure. */
import type { Finding } from './doctor/doctor.ts'
import type { NixlInfo, NixlPlugin } from './info.ts'

const marks = { ok: 'ok', degraded: 'degraded', failed: 'FAILED' } as const

export function findingText({ check, status, detail, remedy }: Finding): string {
  const line = `${marks[status].padEnd(9)} ${check}: ${detail}`
  return remedy === null ? line : `${line}\n          remedy: ${remedy}`
}

export function summaryText(findings: readonly Finding[]): string {
  const count = (status: Finding['status']) =>
    findings.filter((finding) => finding.status === status).length
  return `${count('ok')} ok, ${count('degraded')} degraded, ${count('failed')} failed`
}

export function infoText(info: NixlInfo, plugins: readonly NixlPlugin[]): string {
  const named = (isLoadable: boolean) =>
    plugins
      .filter((plugin) => plugin.isLoadable === isLoadable)
      .map(({ name }) => name)
      .join(' ') || 'none'
  const rows: readonly (readonly [string, string])[] = [
    ['package', info.packageVersion],
    ['NIXL', info.nixlVersion ?? 'unknown (not from a pinned wheel)'],
    ['UCX', info.ucxVersion ?? 'unknown'],
    ['CUDA of the wheel', info.cuda ?? 'unknown'],
    ['library', info.path],
    ['layout', info.layout],
    ['plugins that load', named(true)],
    ['plugins that do not', named(false)],
    ['Node', `${info.node} (Node-API ${info.nodeApi})`],
    ...Object.entries(info.limits).map(([name, value]) => [name, String(value)] as const),
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`).join('\n')
}
