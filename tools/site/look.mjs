// look.mjs SITE: opens pages of the built site in a browser, at common widths, and fails where something is cut off: the page
// is wider than the screen, or words are wider than what they are in. Without a browser it says so, and passes.
import { execFile, spawnSync } from 'node:child_process'
import { createReadStream, existsSync, mkdtempSync, rmSync, statSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { extname, join, normalize } from 'node:path'

const site = process.argv[2]
const widths = [390, 1280, 1440, 1679, 1680, 1920]
const shown = ['index.html', 'docs/index.html', 'docs/config-reference.html']
const browser = ['chromium', 'chromium-browser', 'google-chrome'].find((name) => spawnSync(name, ['--version']).status === 0)

// measure runs in the browser. A frame has the width of a screen, so that the page's own rules for widths apply.
async function measure(widths, shown) {
  const faults = []
  let looked = 0
  for (const page of shown) {
    for (const width of widths) {
      const frame = document.createElement('iframe')
      Object.assign(frame, { src: '/' + page, width, height: 900 })
      document.body.append(frame)
      await new Promise((done) => { frame.onload = done })
      const inside = frame.contentDocument
      const fault = (what) => faults.push(`${page} at ${width} px: ${what}`)
      if (inside.documentElement.scrollWidth > width) fault(`the page is ${inside.documentElement.scrollWidth} px wide`)
      for (const words of inside.querySelectorAll('.VPNav .text, .VPNav .title, .VPSidebar .text, .VPHome h1, .VPHome p, .VPFeature, .VPDoc h1, .VPDoc p')) {
        const box = words.getBoundingClientRect()
        if (box.width === 0) continue // not shown at this width
        looked++
        const menu = words.closest('.VPSidebar')
        if (menu && box.left < 0 && box.right <= 0) continue // the menu of a narrow screen is outside until it is opened
        const right = menu ? menu.getBoundingClientRect().right : width
        if (box.left < 0 || box.right > right + 1 || words.scrollWidth > words.clientWidth + 1 && frame.contentWindow.getComputedStyle(words).display !== 'inline') {
          fault(`"${words.textContent.trim().slice(0, 40)}" is cut off`)
        }
      }
      frame.remove()
    }
  }
  document.body.textContent = JSON.stringify({ looked, faults })
}

const types = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }

// The server has the site, and the page that measures it.
function serve(request, response) {
  const path = decodeURIComponent(new URL(request.url, 'http://x').pathname)
  if (path === '/measure') {
    response.setHeader('Content-Type', 'text/html')
    return response.end(`<!DOCTYPE html><body><script>${measure}; measure(${JSON.stringify(widths)}, ${JSON.stringify(shown)})</script>`)
  }
  const file = join(site, normalize(path))
  if (!existsSync(file) || !statSync(file).isFile()) { response.statusCode = 404; return response.end() }
  response.setHeader('Content-Type', types[extname(file)] ?? 'application/octet-stream')
  createReadStream(file).pipe(response)
}

if (!browser) {
  console.log('site: there is no chromium, so nobody has looked at the pages')
} else {
  const server = createServer(serve)
  await new Promise((done) => server.listen(0, '127.0.0.1', done))
  const profile = mkdtempSync(join(tmpdir(), 'site-'))
  try {
    const out = await new Promise((done, fail) => execFile(browser, ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${profile}`,
      '--virtual-time-budget=60000', '--dump-dom', `http://127.0.0.1:${server.address().port}/measure`], { timeout: 300_000, maxBuffer: 1 << 26 },
    (error, stdout) => error ? fail(error) : done(stdout)))
    const found = out.match(/<body>(\{.*\})<\/body>/s)
    if (!found) throw new Error(`the browser measured nothing: ${out.slice(0, 500)}`)
    const { looked, faults } = JSON.parse(found[1].replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'))
    for (const fault of faults) console.error(`site: ${fault}`)
    console.log(`site: ${shown.length} pages at ${widths.join(', ')} px: ${looked} words and boxes looked at; ${faults.length} faults`)
    process.exitCode = faults.length || looked === 0 ? 1 : 0
  } finally {
    server.close()
    server.closeAllConnections()
    rmSync(profile, { recursive: true, force: true })
  }
}
