/**
 * The shape of the configuration, in zod: types, ranges and defaults of each field by itself. Every
 * message is the field's remedy (what to write), because parse-config.ts puts field and value before it.
 * Rules between fields are in cross-field.ts.
 */
import { isIP } from 'node:net'
import { isAbsolute } from 'node:path'
import { z } from 'zod'
import { limits } from '@kvferry/connector-api'
import { configLimits } from './limits.ts'
import { nearestKey } from './nearest-key.ts'
import { ownNameOfConnector } from './foreign-names.ts'

export const ownConnectors = ['pull', 'push', 'xavier'] as const

const connectorRemedy =
  'name a connector: pull, push, xavier, or an installed package that exports a ConnectorFactory'
const packageNamePattern = /^(@[a-z0-9-][a-z0-9._-]*\/)?[a-z0-9-][a-z0-9._-]*$/

/** Why a connector name is refused, or null. */
function connectorProblem(name: string): string | null {
  const own = ownNameOfConnector(name)
  if (own !== null) return `that is another system's name; ours: ${own}`
  if ((ownConnectors as readonly string[]).includes(name)) return null
  // A near miss is not passed on as a package name: the "not installed" error would tell the user to
  // install whatever package is published under the misspelt name.
  const nearest = nearestKey(name, ownConnectors)
  if (nearest !== null) return `did you mean "${nearest}"? ${connectorRemedy}`
  return packageNamePattern.test(name) && name.length <= limits.idSizeBytesMax
    ? null
    : connectorRemedy
}

const connector = z.string({ error: connectorRemedy }).superRefine((name, context) => {
  const message = connectorProblem(name)
  if (message !== null) context.addIssue({ code: 'custom', message })
})

const roles = {
  producer: 'producer',
  consumer: 'consumer',
  both: 'both',
  kv_producer: 'producer',
  kv_consumer: 'consumer',
  kv_both: 'both',
  // The engine's words, as in its flag.
  prefill: 'producer',
  decode: 'consumer',
} as const
type RoleWord = keyof typeof roles
const role = z
  .enum(Object.keys(roles) as RoleWord[], {
    error:
      'use producer (or prefill), consumer (or decode) or both; vLLM’s kv_producer, kv_consumer and kv_both will do',
  })
  .transform((word) => roles[word])

const engineIdRemedy = `use 1 to ${limits.idSizeBytesMax} characters out of A-Z a-z 0-9 . _ -`
export const engineIdPattern = new RegExp(`^[A-Za-z0-9._-]{1,${limits.idSizeBytesMax}}$`)
const engineId = z
  .string({ error: engineIdRemedy })
  .regex(engineIdPattern, { error: engineIdRemedy })

const hostRemedy = 'use an IP address or a host name, without port, scheme or brackets'
const hostNamePattern =
  /^(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$/
const looksNumeric = /^[0-9.]+$/
const host = z
  .string({ error: hostRemedy })
  .refine((text) => isIP(text) !== 0 || (hostNamePattern.test(text) && !looksNumeric.test(text)), {
    error: hostRemedy,
  })

const port = (min: number, remedy: string) =>
  z.int({ error: remedy }).min(min, { error: remedy }).max(65_535, { error: remedy })
const listenPort = port(0, 'use an integer from 0 to 65535 (0 = any free port)')
const peerPort = port(1, 'use an integer from 1 to 65535')

const path = (remedy: string) =>
  z
    .string({ error: remedy })
    .min(1, { error: remedy })
    .max(configLimits.pathLengthMax, { error: remedy })

const tls = z.strictObject(
  {
    ca: path('use the path of the CA certificate, PEM'),
    cert: path('use the path of the certificate, PEM'),
    key: path('use the path of the private key, PEM'),
  },
  { error: 'use { ca, cert, key } with paths of PEM files, or leave it out' },
)

const sideChannelSchema = z.strictObject(
  {
    host: host.default('127.0.0.1'),
    port: listenPort.default(0),
    insecure: z.boolean({ error: 'use true or false' }).default(false),
    tls: tls.nullable().default(null),
  },
  { error: 'use an object with host, port, insecure, tls' },
)
/** Exported for the rules between fields, which need these two even when others are wrong. */
export const sideChannel = sideChannelSchema.prefault({})

const peersRemedy =
  `use a list of { host, port, engineId }, at most ${configLimits.peerCountMax}, ` +
  'or leave it out for any loopback peer'
const peerSchema = z.strictObject(
  { host, port: peerPort, engineId },
  { error: 'use { host, port, engineId }' },
)
export const peers = z
  .array(peerSchema, { error: peersRemedy })
  .max(configLimits.peerCountMax, { error: peersRemedy })
  .nullable()
  .default(null)

const backendsRemedy = `use a list of 1 to ${configLimits.backendCountMax} NIXL backend names, for example [UCX]`
const nixlSchema = z.strictObject(
  {
    backends: z
      .array(
        z
          .string({ error: backendsRemedy })
          .regex(/^[A-Za-z0-9_-]{1,64}$/, { error: backendsRemedy }),
        {
          error: backendsRemedy,
        },
      )
      .min(1, { error: backendsRemedy })
      .max(configLimits.backendCountMax, { error: backendsRemedy })
      .default(['UCX']),
    libraryPath: path('use the absolute path of libnixl_capi.so, or null for the installed one')
      .refine(isAbsolute, {
        error: 'use the absolute path of libnixl_capi.so, or null for the installed one',
      })
      .nullable()
      .default(null),
  },
  { error: 'use an object with backends, libraryPath' },
)

const ctaCountRemedy = `use an integer from 1 to ${limits.ipcCtaCountMax}, or null for one CTA for each multiprocessor`
const ipcSchema = z.strictObject(
  {
    ctaCount: z
      .int({ error: ctaCountRemedy })
      .min(1, { error: ctaCountRemedy })
      .max(limits.ipcCtaCountMax, { error: ctaCountRemedy })
      .nullable()
      .default(null),
  },
  { error: 'use an object with ctaCount' },
)

const optionsRemedy = 'use an object with the options of the chosen connector'

export const configSchema = z.strictObject(
  {
    connector,
    role: role.default('both'),
    engineId: engineId.optional(),
    loadFailurePolicy: z
      .enum(['recompute', 'fail'], { error: 'use recompute or fail' })
      .default('recompute'),
    bufferDevice: z.enum(['device', 'host'], { error: 'use device or host' }).default('device'),
    sideChannel,
    peers,
    path: z
      .enum(['auto', 'descriptors', 'slabs', 'ipc'], {
        error: 'use auto, descriptors, slabs or ipc',
      })
      .default('auto'),
    nixl: nixlSchema.prefault({}),
    ipc: ipcSchema.prefault({}),
    options: z.record(z.string(), z.unknown(), { error: optionsRemedy }).default({}),
  },
  { error: 'use an object with the keys of kvferry.yaml, at least connector' },
)

/** Known keys of each section; list indexes are left out of the name. */
export const knownKeys: Readonly<Record<string, readonly string[]>> = {
  '': Object.keys(configSchema.shape),
  sideChannel: Object.keys(sideChannelSchema.shape),
  'sideChannel.tls': Object.keys(tls.shape),
  peers: Object.keys(peerSchema.shape),
  nixl: Object.keys(nixlSchema.shape),
  ipc: Object.keys(ipcSchema.shape),
}

export type ParsedFields = z.output<typeof configSchema>
export type ParsedSideChannel = z.output<typeof sideChannel>
export type ParsedPeers = z.output<typeof peers>
