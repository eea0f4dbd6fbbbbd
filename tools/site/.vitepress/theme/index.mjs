// The theme is VitePress's own, with the diagram below the first words of the start page.
import DefaultTheme from 'vitepress/theme'
import { h } from 'vue'
import diagram from '../../diagram.svg?raw'
import './style.css'

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, {
    'home-hero-after': () => h('div', { class: 'diagram' }, [h('div', { class: 'container', innerHTML: diagram })]),
  }),
}
