/**
 * The shell of a report: one HTML file with everything in it, no script, nothing fetched. Pure. Callers give
 * text and SVG; text is escaped here and nowhere else.
 */
export interface Panel {
  readonly title: string
  /** From `svg-chart.ts`. */
  readonly svg: string
  readonly note?: string
}

export interface DataTable {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface Page {
  readonly title: string
  /** First lines, as text. */
  readonly lead: readonly string[]
  readonly failures: readonly string[]
  readonly warnings: readonly string[]
  readonly panels: readonly Panel[]
  readonly tables: readonly DataTable[]
}

const entities: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"']/g, (character) => entities[character] as string)

const style = `
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; margin: 0 auto; max-width: 1600px; padding: 1.5rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2rem; }
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 560px), 1fr)); gap: 1rem; }
figure { margin: 0; border: 1px solid #ddd; border-radius: 6px; padding: .5rem; }
figure svg { width: 100%; height: auto; } figcaption { color: #444; font-size: .85rem; padding: 0 .5rem .25rem; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; font-size: .85rem; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .6rem; text-align: left; vertical-align: top; }
td:not(:first-child) { font-variant-numeric: tabular-nums; }
.failed { color: #a40000; font-weight: 600; } .warning { color: #7a5200; }
@media print { figure { break-inside: avoid; } }
`

const paragraphs = (lines: readonly string[], cssClass = ''): string =>
  lines
    .map((line) => `<p${cssClass ? ` class="${cssClass}"` : ''}>${escapeHtml(line)}</p>`)
    .join('\n')

const panelHtml = ({ title, svg, note }: Panel): string =>
  `<figure role="img" aria-label="${escapeHtml(title)}">${svg}` +
  `<figcaption>${escapeHtml(note ?? '')}</figcaption></figure>`

function tableHtml({ title, head, rows }: DataTable): string {
  const cells = (row: readonly string[], tag: 'td' | 'th'): string =>
    `<tr>${row.map((text) => `<${tag}>${escapeHtml(text)}</${tag}>`).join('')}</tr>`
  const body = rows.map((row) => cells(row, 'td')).join('\n')
  return (
    `<h2>${escapeHtml(title)}</h2>\n<div class="scroll"><table>` +
    `<thead>${cells(head, 'th')}</thead>\n<tbody>${body}</tbody></table></div>`
  )
}

export function renderPage(page: Page): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>${escapeHtml(page.title)}</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<h1>${escapeHtml(page.title)}</h1>
${paragraphs(page.lead)}
${paragraphs(page.failures, 'failed')}
${paragraphs(page.warnings, 'warning')}
<div class="panels">
${page.panels.map(panelHtml).join('\n')}
</div>
${page.tables.map(tableHtml).join('\n')}
</body>
</html>
`
}
