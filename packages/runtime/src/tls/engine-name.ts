/**
 * The name of an engine in a certificate: one URI among the subject's alternative names,
 * `kvferry:engine:<id>`. Pure. Reading is strict: a certificate that names two engines names none, and the
 * text that Node makes of the names is cut only where Node itself cut it.
 */
import { asEngineId, type EngineId } from '@kvferry/connector-api'
import { engineIdPattern } from '../config/schema.ts'

const uriPrefix = 'kvferry:engine:'

/** The alternative name that a certificate of that engine must have. */
export const engineUri = (engineId: string): string => `${uriPrefix}${engineId}`

/**
 * Splits `X509Certificate.subjectAltName` (`URI:a, DNS:b`). Node writes a name that holds a comma or a
 * quotation mark as a JSON string; without that, the certificate of a host called
 * `x, URI:kvferry:engine:p0` would name the engine p0.
 */
function splitNames(text: string): string[] {
  const names: string[] = []
  let start = 0
  let isQuoted = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]
    if (isQuoted && character === '\\') at++
    else if (character === '"') isQuoted = !isQuoted
    else if (!isQuoted && character === ',') {
      names.push(text.slice(start, at))
      start = at + 1
    }
  }
  return [...names, text.slice(start)].map((name) => name.trim())
}

export type CertifiedName =
  | { readonly kind: 'engine'; readonly engineId: EngineId }
  | { readonly kind: 'none'; readonly reason: string }

/** What a certificate's alternative names say; undefined when it has none. */
export function readEngineName(subjectAltName: string | undefined): CertifiedName {
  const uris = splitNames(subjectAltName ?? '').filter((name) =>
    name.startsWith(`URI:${uriPrefix}`),
  )
  const [uri, ...others] = uris
  if (uri === undefined) {
    return { kind: 'none', reason: `it names no engine (a URI ${engineUri('<id>')} is missing)` }
  }
  if (others.length > 0) return { kind: 'none', reason: 'it names several engines' }
  const id = uri.slice(`URI:${uriPrefix}`.length)
  if (!engineIdPattern.test(id)) {
    return { kind: 'none', reason: 'it names an engine with an impossible id' }
  }
  return { kind: 'engine', engineId: asEngineId(id) }
}
