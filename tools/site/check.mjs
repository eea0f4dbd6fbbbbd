// check.mjs SITE: fails where a link of the built site leads to no page or to no heading of it, where no link leads to a page,
// where a picture has no file or no words, and where the search finds sources.
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'

const site = process.argv[2]
const pages = new Map(readdirSync(site, { recursive: true }).filter((file) => file.endsWith('.html') && file !== '404.html').map((file) => {
  const html = readFileSync(join(site, file), 'utf8')
  const all = (pattern) => [...html.matchAll(pattern)].map((match) => match[1].replaceAll('&amp;', '&'))
  return [file, {
    anchors: new Set(all(/ id="([^"]*)"/g)),
    links: all(/<a [^>]*?href="([^"]*)"/g),
    assets: all(/<(?:link|script|img) [^>]*?(?:href|src)="([^"]*)"/g),
    pictures: all(/(<img\b[^>]*>)/g),
  }]
}))

const faults = [], reached = new Set(['index.html'])
let inside = 0, outside = 0
const resolve = (page, path) => path.startsWith('/') ? path.slice(1) : posix.join(dirname(page), path)
for (const [page, { links, assets, pictures }] of pages) {
  for (const picture of pictures) {
    if (!/ src="[^"]+"/.test(picture)) faults.push(`${page} has a picture without a file: ${picture}`)
    if (!/ alt(?=[ =>])/.test(picture)) faults.push(`${page} has a picture without words for those who do not see it: ${picture}`)
  }
  for (const href of links) {
    if (/^(https?|mailto):/.test(href)) { outside++; continue }
    inside++
    const [path, anchor] = href.split('#').map(decodeURIComponent)
    let to = path === '' ? page : resolve(page, path)
    if (to === '' || to.endsWith('/')) to = posix.join(to, 'index.html')
    if (!pages.has(to)) faults.push(`${page} links to ${href}: there is no such page`)
    else if (anchor && !pages.get(to).anchors.has(anchor)) faults.push(`${page} links to ${href}: there is no such heading`)
    if (to !== page) reached.add(to)
  }
  for (const asset of assets) {
    const path = join(site, resolve(page, asset))
    if (/^(https?:)?\/\//.test(asset)) faults.push(`${page} loads ${asset} from elsewhere`)
    else if (!existsSync(path) || !statSync(path).isFile()) faults.push(`${page} loads ${asset}, which does not exist`)
  }
}
for (const page of pages.keys()) if (!reached.has(page)) faults.push(`no link leads to ${page}`)
if (pages.size === 0) faults.push(`${site} has no pages`)
for (const file of readdirSync(site, { recursive: true }).filter((file) => /@localSearchIndex.*\.js$/.test(file))) {
  if (readFileSync(join(site, file), 'utf8').includes('/source/')) faults.push(`the search finds sources: ${file}`)
}
for (const fault of faults) console.error(`site: ${fault}`)
console.log(`site: ${pages.size} pages, ${inside} links among them checked, ${outside} to elsewhere not; ${faults.length} faults`)
process.exitCode = faults.length ? 1 : 0
