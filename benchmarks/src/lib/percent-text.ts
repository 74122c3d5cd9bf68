/** A share as every table, note and verdict shows it; a dash where there is none. Pure. */
export const percentText = (share: number | null): string =>
  share === null ? '–' : `${(share * 100).toFixed(1)} %`
