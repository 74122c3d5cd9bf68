/** `kvferry` as a test runs it: in a directory of its own, its streams caught. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach } from 'vitest'
import { runCli } from '../../src/cli/program.ts'

export interface TestCli {
  /** New for each test. */
  readonly directory: string
  run(...argv: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }>
  configFile(content: string): Promise<string>
  /** As if `npm install acme-kv` had been run in the directory. */
  installConnector(): Promise<void>
}

const connector = `export default {
  name: 'acme-kv', capabilities: {}, createScheduler() {}, createWorker() {},
  parseOptions: (options) => options,
  checkConfig(config) {
    if (config.loadFailurePolicy !== 'fail') return
    const error = new Error('loadFailurePolicy is fail, use recompute')
    throw Object.assign(error, { [Symbol.for('kvferry.ConnectorError')]: true, code: 'ERR_KV_CONFIG' })
  },
}`

export function useCli(): TestCli {
  let directory = ''
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'kvferry-cli-'))
  })
  afterEach(() => rm(directory, { recursive: true }))
  return {
    get directory() {
      return directory
    },
    async run(...argv) {
      let stdout = ''
      let stderr = ''
      const exitCode = await runCli(argv, {
        stdout: (text) => (stdout += text),
        stderr: (text) => (stderr += text),
        directory,
      })
      return { exitCode, stdout, stderr }
    },
    async configFile(content) {
      const path = join(directory, 'kvferry.yaml')
      await writeFile(path, content)
      return path
    },
    async installConnector() {
      const folder = join(directory, 'node_modules', 'acme-kv')
      await mkdir(folder, { recursive: true })
      await writeFile(join(folder, 'package.json'), '{"name":"acme-kv","main":"index.mjs"}')
      await writeFile(join(folder, 'index.mjs'), connector)
    },
  }
}
