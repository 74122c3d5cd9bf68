// Copies a package of this clone with all that it needs at run time: what is built and installed here, at the same places
// below another folder, so that links between packages go on leading where they lead. No registry and no resolving
// anew: what is copied is what was tested.
import {
  cpSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  symlinkSync,
} from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { SetupError } from './setup.mjs'

/** Of no use to a program that runs. */
const unneededEndings = ['.map', '.d.ts', '.d.mts', '.d.cts', '.md', '.tsbuildinfo']
/** Folders that nothing in Node loads, and larger than all the rest: builds for browsers. */
const unneededFolders = ['echarts/dist']

const isNeeded = (path) =>
  basename(path) !== '.bin' &&
  !unneededEndings.some((ending) => path.endsWith(ending)) &&
  !unneededFolders.some((folder) => path.endsWith(`node_modules/${folder}`))

const manifestOf = (folder) => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

/** Where a package's folder has the link to one that it needs: its own, or pnpm's beside it. */
function linkOf(folder, name) {
  const places = [join(folder, 'node_modules', name)]
  for (let above = dirname(folder); above !== dirname(above); above = dirname(above)) {
    if (basename(above) === 'node_modules') places.push(join(above, name))
  }
  return places.find((place) => existsSync(place)) ?? null
}

function needsOf(manifest) {
  const needs = new Map()
  for (const name of Object.keys(manifest.dependencies ?? {})) needs.set(name, true)
  for (const name of Object.keys(manifest.optionalDependencies ?? {})) needs.set(name, false)
  for (const name of Object.keys(manifest.peerDependencies ?? {})) {
    // Those are for who tests or types with them.
    if (manifest.peerDependenciesMeta?.[name]?.optional !== true) needs.set(name, true)
  }
  return needs
}

/** Of a package of ours what it publishes; of others everything but what `isNeeded` leaves out. */
function copyFiles(folder, target, manifest, isOurs) {
  if (!isOurs) {
    cpSync(folder, target, { recursive: true, filter: isNeeded })
    return
  }
  mkdirSync(target, { recursive: true })
  for (const name of ['package.json', ...(manifest.files ?? [])]) {
    const source = join(folder, name)
    if (existsSync(source)) {
      cpSync(source, join(target, name), { recursive: true, filter: isNeeded })
    }
  }
}

/**
 * The package in `folder` and what it needs, from below `root` to below `target`. What is optional and not here stays out.
 * @throws SetupError when something isn't installed.
 */
export function copyInstalled({ root, folder, target }) {
  const from = realpathSync(root)
  const waiting = [realpathSync(folder)]
  const copied = new Set()
  for (let each = waiting.pop(); each !== undefined; each = waiting.pop()) {
    if (copied.has(each)) continue
    copied.add(each)
    const manifest = manifestOf(each)
    const isOurs = !relative(from, each).split('/').includes('node_modules')
    copyFiles(each, join(target, relative(from, each)), manifest, isOurs)
    for (const [name, isRequired] of needsOf(manifest)) {
      const link = linkOf(each, name)
      if (link === null) {
        if (!isRequired) continue
        throw new SetupError(`${manifest.name} needs ${name}, which isn't installed`)
      }
      const needed = realpathSync(link)
      waiting.push(needed)
      const copy = join(target, relative(from, realpathSync(dirname(link))), basename(link))
      if (!lstatSync(link).isSymbolicLink() || existsSync(copy)) continue
      mkdirSync(dirname(copy), { recursive: true })
      symlinkSync(readlinkSync(link), copy)
    }
  }
}
