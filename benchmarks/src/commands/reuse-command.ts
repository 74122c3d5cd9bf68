/**
 * `kvferry-bench reuse`: from flags to exit code. 0 = all checks passed, 1 = one failed.
 */
import type { Command } from 'commander'
import { traitsOf } from '../compare/configuration.ts'
import type { EngineShape } from '../compare/presets.ts'
import type { CommandIo } from '../main.ts'
import { blockCountMax, reuseGeometry } from '../reuse/geometry.ts'
import { workingSets, type WorkingSet } from '../reuse/plan.ts'
import {
  historySizingOf,
  reuseEngine,
  reusePresets,
  type ReusePreset,
  type ReusePresetName,
} from '../reuse/presets.ts'
import { runReuse } from '../reuse/run-reuse.ts'
import { historyOptions, reuseRuns, type ReuseChoice } from '../reuse/runs-of.ts'
import { renderReuse } from '../reuse/table.ts'
import { blockCountsFor } from './engine-flags.ts'
import {
  parseExperimentFlags,
  parseShape,
  type ExperimentFlags,
  type ExperimentRequest,
} from './experiment-options.ts'
import { integerBetween, oneOf } from './flag-values.ts'
import { addExperimentOptions, assertOutputs, runMeasured } from './measured-command.ts'
import { collect, configurationsOf } from './shared.ts'

interface ReuseFlags extends ExperimentFlags {
  readonly workingSet: string
  readonly concurrency: string
  readonly cycles?: string
  readonly controls: string
}

const example = `
Examples:
  $ kvferry-bench reuse --working-set hot --connectors pull,xavier --json hot.json
  $ kvferry-bench reuse --working-set changing --preset full --html changing.html

A connector that knows the options ${historyOptions.join(' and ')} has a history: it runs with a budget in the
published ratio to the engine's blocks, and as a control with a budget of 0. Others run as baselines, and for the hot set once more
with matched device memory. Exit code: 0 all checks passed, 1 a check failed (failed request, wrong byte, texts
that differ, counters that contradict the experiment; in "full" also a missed bar or a point outside the overrun
guard), 2 wrong usage.`

async function choicesOf(request: ExperimentRequest): Promise<ReuseChoice[]> {
  const configurations = await configurationsOf(request.configurations)
  return Promise.all(
    configurations.map(async (configuration) => {
      const { optionNames } = await traitsOf(configuration.connector)
      return { configuration, hasHistory: historyOptions.every((name) => optionNames.has(name)) }
    }),
  )
}

function cyclesOf(flags: ReuseFlags, preset: ReusePreset, workingSet: WorkingSet): number {
  const { cycles } = flags
  if (cycles === undefined) return preset.cycles[workingSet]
  return integerBetween('cycles', cycles, { min: 1, max: 1_000 })
}

/** Documents grow with the engine's blocks, and must be no longer than its longest sequence. */
function shapeOf(flags: ReuseFlags, preset: ReusePreset, workingSet: WorkingSet): EngineShape {
  const engine = reuseEngine(preset, workingSet)
  const { min, why } = blockCountsFor(engine)
  return parseShape(flags, engine, {
    min,
    max: blockCountMax(engine, workingSet, preset.outputTokens),
    why: `${why}, and documents, which grow with their number, are no longer`,
  })
}

async function reuse(flags: ReuseFlags, io: CommandIo): Promise<number> {
  const request = parseExperimentFlags(flags)
  const workingSet = oneOf('working-set', flags.workingSet, workingSets)
  const named = reusePresets[
    oneOf('preset', flags.preset, Object.keys(reusePresets) as ReusePresetName[])
  ] as ReusePreset
  const engine = shapeOf(flags, named, workingSet)
  const cycles = cyclesOf(flags, named, workingSet)
  const concurrency = Number(oneOf('concurrency', flags.concurrency, ['1', '4', '16']))
  const withControls = oneOf('controls', flags.controls, ['all', 'none']) === 'all'
  assertOutputs(request)
  const runs = reuseRuns(await choicesOf(request), {
    ...{ workingSet, withControls, shape: engine },
    geometry: reuseGeometry(engine, historySizingOf(named, workingSet)),
  })
  const prefixCaching = workingSet === 'capacity-tier' ? 'off' : 'on'
  return runMeasured(request, io, {
    schema: 'reuse',
    measure: ({ kind, nixl, deviceTier }, dependencies) =>
      runReuse(
        {
          ...{
            preset: named,
            engine,
            workingSet,
            cycles,
            concurrency,
            runs,
            prefixCaching,
            nixl,
            deviceTier,
          },
          agent: kind,
          seed: request.seed,
        },
        dependencies,
      ),
    render: renderReuse,
    writeReport: async (target, result) => {
      const { writeReuseReport } = await import('../report/reuse-report.ts')
      writeReuseReport(target, result)
    },
  })
}

/** Adds the command to `program`; `finish` receives its exit code. */
export function addReuseCommand(
  program: Command,
  io: CommandIo,
  finish: (exitCode: number) => void,
): void {
  const command = program
    .command('reuse')
    .description('documents that come back after the engines dropped their KV; with all controls')
    .option(
      '--connectors <list>',
      'what to run: NAME or NAME:key=value, with commas',
      'pull,xavier',
    )
    .option('--working-set <name>', 'hot, changing (negative control) or capacity-tier', 'hot')
    .option('--preset <name>', 'quick, full (3 trials, 204 revisits) or 8b (2 MiB blocks)', 'quick')
    .option('--concurrency <n>', 'callers within a step: 1, 4 or 16', '1')
    .option('--cycles <n>', 'immediate repeat, pressure and revisit, so many times')
    .option('--controls <which>', 'all or none: only what was named', 'all')
    .option('--option <key=value>', 'option of all connectors, repeatable', collect, [])
    .option('--hooks <place>', 'connector hooks: after-launch or additive', 'after-launch')
  addExperimentOptions(command)
    .addHelpText('after', example)
    .action(async (flags: ReuseFlags) => finish(await reuse(flags, io)))
}
