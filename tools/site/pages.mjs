// pages.mjs ROOT OUT: writes the pages of the site into OUT/pages and its menu, which docs/README.md is, into OUT/sidebar.json.
//
// A page is a Markdown file of the project, at its own path: README.md of a folder is the folder's page, but that of the
// project is README.html, since the site begins with start.md. Links between them stay as they are. A link to another file
// or folder leads to a page that shows it.
import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname, join, posix, relative } from 'node:path'

const [root, out] = process.argv.slice(2)
const git = (...args) => execFileSync('git', ['-C', root, ...args], { encoding: 'utf8' }).split('\0').filter(Boolean)
const files = git('ls-files', '-z', '-co', '--exclude-standard').filter((file) => statSync(join(root, file), { throwIfNoEntry: false })?.isFile())
// Templates are no pages until kubectl flex new fills them in.
const isPage = (file) => file.endsWith('.md') && !/(^|\/)(testdata|templates)\//.test(file) && file !== 'tools/site/start.md'
const read = (file) => readFileSync(join(root, file), 'utf8')

const link = /(\]\()([^)\s]+)(\))/g
const code = /(^ *```[\s\S]*?^ *```|`[^`]+`)/m // with its group, split keeps what it finds

// rewrite calls change for each link of a text that is not code.
function rewrite(text, change) {
  return text.split(new RegExp(code, 'gm')).map((part, i) => i % 2 ? part : part.replace(link, (_, open, to, close) => open + change(to) + close)).join('')
}

const shown = new Set() // files and folders that a link leads to

// target is where a link of a page leads on the site.
function target(page, to) {
  if (/^[a-z]+:/.test(to) || to.startsWith('#')) return to
  const [path, anchor] = to.split('#')
  let file = posix.join(dirname(page), path).replace(/\/$/, '')
  if (files.includes(`${file}/README.md`)) file += '/README.md'
  const hash = anchor === undefined ? '' : `#${anchor}`
  if (isPage(file)) return from(page, file) + hash
  if (!files.some((known) => known === file || known.startsWith(`${file}/`))) throw new Error(`${page} links to ${to}, which is no file of the project`)
  shown.add(file)
  return from(page, `source/${file}.md`)
}

const place = (file) => file.replace(/\/README\.md$/, '/index.md')
function from(page, file) {
  const path = relative(dirname(place(page)), place(file))
  return path.startsWith('.') ? path : `./${path}`
}

function write(file, text) {
  const path = join(out, 'pages', place(file))
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

const languages = { '.go': 'go', '.yaml': 'yaml', '.sh': 'sh', '.py': 'python', '.json': 'json', '.xml': 'xml' }
const block = (file) => `\`\`\`\`\`${languages[extname(file)] ?? 'text'}\n${read(file).trimEnd()}\n\`\`\`\`\`\n`
const longest = 150

// section shows a file below its name; a long one is to be read in the sources.
function section(folder, file) {
  const lines = read(file).split('\n').length
  return `\n## ${relative(folder, file)}\n\n${lines > longest ? `${lines} lines.\n` : block(file)}`
}

function source(path) {
  if (!statSync(join(root, path)).isDirectory()) return `# ${path}\n\n${block(path)}`
  return `# ${path}\n${files.filter((file) => dirname(file) === path).map((file) => section(path, file)).join('')}`
}

// menu is the sections of docs/README.md with their lists, as VitePress wants them.
function menu(text) {
  const sections = []
  for (const line of text.split('\n')) {
    const heading = line.match(/^## (.+)$/), item = line.match(/^\* \[([^\]]+)\]\(([^)]+)\)/)
    if (heading) sections.push({ text: heading[1], collapsed: false, items: [] })
    if (item) sections.at(-1).items.push({ text: item[1], link: '/' + place(posix.join('docs', item[2])).replace(/(index)?\.md$/, (_, index) => index ? '' : '.html') })
  }
  if (sections.some((section) => section.items.length === 0)) throw new Error('a section of docs/README.md has no list')
  return sections
}

rmSync(join(out, 'pages'), { recursive: true, force: true })
for (const page of files.filter(isPage)) {
  let text = read(page).replace(/^<!--.*-->$/gm, '')
  if (/^examples\/[^/]+\/README\.md$/.test(page)) {
    const folder = dirname(page)
    text += files.filter((file) => file.startsWith(`${folder}/`) && file !== page).map((file) => section(folder, file)).join('')
  }
  write(page, rewrite(text, (to) => target(page, to)))
}
const start = 'tools/site/start.md' // whose links lead from where it lies
write('index.md', rewrite(read(start), (to) => target(start, to).replace(/^(\.\.\/){2}/, './')))
mkdirSync(join(out, 'pages/public'))
copyFileSync(join(root, 'tools/site/logo.svg'), join(out, 'pages/public/logo.svg'))
for (const path of shown) write(`source/${path}.md`, source(path))
writeFileSync(join(out, 'sidebar.json'), JSON.stringify(menu(read('docs/README.md')), null, 2))
