/**
 * The documentation site: every Markdown page of the repository at the path it has there, so that links
 * work the same in an editor and on the site. A README is its folder's index page. Built and link-checked
 * by the gate `docs`; links to anything that is no page (source files) are remark's to check.
 */
import { existsSync } from 'node:fs'
import { defineConfig } from 'vitepress'

const page = (text: string, link: string) => ({ text, link })

export default defineConfig({
  title: 'KVFerry',
  description: 'KV-cache transfer connectors between prefill and decode engines',
  srcDir: '..',
  srcExclude: ['**/node_modules/**', '**/dist/**', '.cache/**', '.changeset/**', '.turbo/**'],
  rewrites: (id) => id.replace(/(^|\/)README\.md$/, '$1index.md'),
  // Called with a link that leads to no page, relative to the page or to the root.
  ignoreDeadLinks: [
    (link) => existsSync(new URL(`../../${link.replace(/^[./]+/, '')}`, import.meta.url)),
  ],
  themeConfig: {
    search: { provider: 'local' },
    nav: [
      page('How-to', '/docs/'),
      page('Errors', '/docs/reference/errors'),
      page('Decisions', '/contributing/decisions/'),
    ],
    sidebar: [
      {
        text: 'Explanation',
        items: [
          page('What it is', '/'),
          page('Architecture', '/ARCHITECTURE'),
          page(
            'When a block may be reused',
            '/contributing/decisions/0005-when-a-block-may-be-reused',
          ),
          page('Why pull and push', '/docs/explanation/why-pull-and-push'),
          page('Which blocks are worth keeping', '/docs/explanation/history-policies'),
          page('Modelled times', '/docs/explanation/time-models'),
        ],
      },
      {
        text: 'How-to',
        items: [
          page('Move your first blocks', '/docs/how-to/move-your-first-blocks'),
          page('Two nodes', '/docs/how-to/two-nodes'),
          page('Secure the side channel', '/docs/how-to/secure-the-side-channel'),
          page('Compare connectors', '/docs/how-to/compare-connectors'),
          page('Tiered history', '/docs/how-to/tiered-history'),
          page('Measure a history', '/docs/how-to/measure-a-history'),
          page('Troubleshoot', '/docs/how-to/troubleshoot'),
          page('Write a connector', '/docs/how-to/write-a-connector'),
          page('Contribute', '/CONTRIBUTING'),
        ],
      },
      {
        text: 'Reference',
        items: [
          page('Errors', '/docs/reference/errors'),
          page('Metrics', '/docs/reference/metrics'),
          page('Glossary', '/docs/reference/glossary'),
          page('Conformance', '/docs/reference/conformance'),
          page('Verification', '/docs/reference/verification'),
          page('Upstream’s tests', '/docs/reference/upstream-tests'),
          page('Contract', '/packages/connector-api/'),
          page('Pull connector', '/packages/connector-pull/'),
          page('Push connector', '/packages/connector-push/'),
          page('Xavier connector', '/packages/connector-xavier/'),
          page('KV history', '/packages/kv-history/'),
          page('Native NIXL', '/packages/native-nixl/'),
          page('Runtime', '/packages/runtime/'),
          page('Reference engine', '/packages/reference-engine/'),
          page('Router', '/packages/router/'),
          page('vLLM', '/packages/vllm-bridge/'),
          page('Benchmarks', '/benchmarks/'),
        ],
      },
    ],
  },
})
