/** Bounds of the configuration, with their reasons. */
import { limits } from '@kvferry/connector-api'

export const configLimits = {
  /** Bytes of a configuration file. A thousand peers fit; a log file passed by mistake is refused unread. */
  fileSizeBytesMax: 1_048_576,
  /** More peers than associations could never all be connected. */
  peerCountMax: limits.associationCountMax,
  /** NIXL has about a dozen backends. */
  backendCountMax: 16,
  /** PATH_MAX of Linux. */
  pathLengthMax: 4_096,
  /** Problems listed in one error; a file of garbage has thousands. */
  problemCountMax: 20,
  /** Characters of a refused value that an error shows. */
  shownValueLengthMax: 80,
  /** Aliases that one YAML document may resolve ("billion laughs"). */
  yamlAliasCountMax: 100,
} as const
