// What VitePress is told. pages.mjs made the pages and the menu.
import { readFileSync } from 'node:fs'

const sidebar = JSON.parse(readFileSync(new URL('../sidebar.json', import.meta.url), 'utf8'))

// slugify names a heading as GitHub does, and test/docs, so that a link works at both places.
const slugify = (heading) => heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, '').replaceAll(' ', '-')

export default {
  title: 'flex-provisioner',
  description: 'A volume for each PersistentVolumeClaim, made by a container of your own',
  srcDir: 'pages',
  outDir: '../site',
  head: [['link', { rel: 'icon', type: 'image/svg+xml', href: '/logo.svg' }]],
  markdown: {
    html: false, // as in <CLASS>, which is text
    linkify: false, // a host name is text too
    anchor: { slugify },
    headers: { slugify },
    config(md) {
      // VitePress leaves indented blocks to Vue, which reads {{ }} in them. Fenced ones it does not.
      md.core.ruler.push('indented', ({ tokens }) => {
        for (const token of tokens) {
          if (token.type === 'code_block') Object.assign(token, { type: 'fence', tag: 'code', info: 'sh', markup: '```' })
        }
      })
      const text = md.renderer.rules.text
      md.renderer.rules.text = (...args) => text(...args).replaceAll('{{', '&#123;&#123;')
    },
  },
  themeConfig: {
    logo: '/logo.svg',
    nav: [
      { text: 'Documentation', link: '/docs/' },
      { text: 'Examples', link: '/examples/' },
      { text: 'Changelog', link: '/CHANGELOG.html' },
    ],
    sidebar,
    outline: [2, 3],
    search: {
      provider: 'local',
      options: {
        // Sources are shown where a page links to them. Who searches wants the pages.
        _render: (text, env, md) => env.relativePath.startsWith('source/') ? '' : md.render(text, env),
        miniSearch: { searchOptions: { boostDocument: (page) => page.startsWith('/docs/') ? 2 : 1 } },
      },
    },
  },
}
