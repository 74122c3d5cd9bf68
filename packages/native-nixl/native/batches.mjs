/**
 * Several sources as one unit of compilation. Of a small file's time the compiler spends nine tenths on
 * headers and on templates that every other file has too; a batch has them once, and all sources together
 * take a quarter of the time. So names of anonymous namespaces must differ within a folder: the compiler
 * says so if they don't. That a file includes what it needs shows only with one file a unit (`--each`).
 */
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'

/** Small enough that a change of one file takes seconds, large enough that headers hardly count. */
const bytesPerBatch = 64 * 1024

/** Neighbours in runs of about the same size, so that two compilers end at about the same time. */
function divide(files) {
  const sizes = files.map((file) => readFileSync(file).length)
  const total = sizes.reduce((sum, size) => sum + size, 0)
  const count = Math.ceil(total / bytesPerBatch)
  const runs = Array.from({ length: count }, () => [])
  let before = 0
  files.forEach((file, i) => {
    runs[Math.min(count - 1, Math.floor((before * count) / total))].push(file)
    before += sizes[i]
  })
  return runs.filter((run) => run.length > 0)
}

/** Writes the batches of a folder's sources into `folder`. Answers their paths. */
export function batchesOf(files, folder) {
  mkdirSync(folder, { recursive: true })
  return divide(files).map((run) => {
    const path = join(folder, `from_${basename(run[0])}`)
    const text = run.map((file) => `#include "${file}"\n`).join('')
    if (existsSync(path) && readFileSync(path, 'utf8') === text) return path
    const temporary = `${path}.${process.pid}`
    writeFileSync(temporary, text)
    renameSync(temporary, path)
    return path
  })
}
