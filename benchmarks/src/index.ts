/**
 * The comparison as a library, for programs that want results without the command line.
 *
 * @packageDocumentation
 */
export { runCompare, type CompareDependencies, type CompareOptions } from './compare/compare.ts'
export type { Cluster, ClusterEngine, ClusterSpec, StartCluster } from './compare/cluster.ts'
export {
  besideBuild,
  resolveConfigurations,
  type Configuration,
  type ConfigurationRequest,
  type ConnectorChoice,
  type Hooks,
} from './compare/configuration.ts'
export { readBuild, type Build } from './compare/other-build.ts'
export { presets, type EngineShape, type Preset, type PresetName } from './compare/presets.ts'
export { processClusters, type ProcessClusterOptions } from './compare/process-cluster.ts'
export type { CompareResult, NoiseFloor, RunEntry, Workload } from './compare/result.ts'
export { renderResult } from './compare/table.ts'
export type { Bar } from './experiments/bar.ts'
export { loadPresets, type LoadPreset } from './load/presets.ts'
export type { LoadResult, LoadRunEntry } from './load/result.ts'
export { runLoad, type LoadOptions } from './load/run-load.ts'
export { loadRuns } from './load/runs-of.ts'
export { renderLoad } from './load/table.ts'
export { runMicroAgent, type MicroAgentOptions } from './micro/agent.ts'
export type {
  MicroCase,
  MicroPathsResult,
  MicroResult,
  MicroRouterResult,
  PathsCase,
  RouterCase,
} from './micro/result.ts'
export { runMicroPaths, type MicroPathsOptions } from './micro/paths.ts'
export { renderMicroPaths } from './micro/paths-table.ts'
export { runMicroRouter, type MicroRouterOptions } from './micro/router.ts'
export { renderMicroRouter } from './micro/router-table.ts'
export { renderMicro } from './micro/table.ts'
export { reuseGeometry } from './reuse/geometry.ts'
export { reuseEngine, reusePresets, type ReusePreset } from './reuse/presets.ts'
export type { ReuseResult, ReuseRunEntry } from './reuse/result.ts'
export { runReuse, type ReuseOptions } from './reuse/run-reuse.ts'
export { reuseRuns } from './reuse/runs-of.ts'
export { renderReuse } from './reuse/table.ts'
export { createDistribution, nearestRank, type Distribution } from './lib/distribution.ts'
export type { Environment } from './lib/environment.ts'
export { createProgress, silentProgress, type Progress } from './lib/progress.ts'
export { assertMatchesSchema, type SchemaName } from './lib/result-schema.ts'
export {
  createChildGroup,
  type ChildGroup,
  type ChildOptions,
  type TrackedChild,
} from './lib/child-group.ts'
