/**
 * Reads a configuration file: YAML 1.2, of which JSON is a subset, so the extension doesn't matter.
 * The file's size and the document's aliases are bounded before anything is built from them.
 */
import { LineCounter, parseDocument } from 'yaml'
import { ConnectorError, type KvferryConfig } from '@kvferry/connector-api'
import { readBoundedFile } from '../bounded-file.ts'
import { configLimits } from './limits.ts'
import { parseConfig } from './parse-config.ts'
import { configError, showValue } from './problem.ts'

async function readBounded(path: string): Promise<string> {
  const max = configLimits.fileSizeBytesMax
  const read = await readBoundedFile(path, max)
  if (read.kind === 'too-large') {
    const remedy = `use a file of at most ${max} bytes, this one has ${read.sizeBytes}`
    throw configError([{ field: 'file', value: showValue(path), remedy }])
  }
  return new TextDecoder('utf-8', { fatal: true }).decode(read.bytes)
}

async function readText(path: string): Promise<string> {
  try {
    return await readBounded(path)
  } catch (cause) {
    if (ConnectorError.isInstance(cause)) throw cause
    const { code } = cause as NodeJS.ErrnoException
    if (code === undefined) throw cause
    const remedy =
      code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
        ? 'save it as UTF-8'
        : `name a readable file (${code})`
    throw configError([{ field: 'file', value: showValue(path), remedy }], { cause })
  }
}

function parseText(text: string, path: string): unknown {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter, prettyErrors: false, strict: true })
  const [error] = [...document.errors, ...document.warnings]
  if (error !== undefined) {
    const { line, col } = lineCounter.linePos(error.pos[0])
    const remedy = `correct line ${line}, column ${col}: ${error.message}`
    throw configError([{ field: 'file', value: showValue(path), remedy }], { cause: error })
  }
  try {
    return document.toJS({ maxAliasCount: configLimits.yamlAliasCountMax })
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause)
    const remedy = `use fewer or valid aliases: ${reason}`
    throw configError([{ field: 'file', value: showValue(path), remedy }], { cause })
  }
}

/**
 * The document alone, for programs with a schema of their own (the router).
 * @throws ConnectorError ERR_KV_CONFIG for a file that can't be read, is too large, isn't UTF-8, or isn't
 *   YAML or JSON (with line and column).
 */
export async function readConfigFile(path: string): Promise<unknown> {
  return parseText(await readText(path), path)
}

/**
 * @throws ConnectorError ERR_KV_CONFIG for a file that can't be read, is too large, isn't UTF-8, isn't YAML
 *   or JSON (with line and column), or whose content is refused by `parseConfig`.
 */
export async function loadConfigFile(path: string): Promise<KvferryConfig> {
  return parseConfig(await readConfigFile(path))
}
