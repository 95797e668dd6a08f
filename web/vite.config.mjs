// One classic script and one style sheet per page, with fixed names: scripts/build_web.py puts both
// into the page. PAGE names the folder in src/.
import { defineConfig } from "vite";

const page = process.env.PAGE ?? "flame";

export default defineConfig({
  build: {
    outDir: `dist/${page}`,
    emptyOutDir: true,
    cssCodeSplit: false,
    target: "es2022",
    lib: {
      entry: `src/${page}/main.ts`,
      formats: ["iife"],
      name: "sightlinePage",
      fileName: () => "page.js",
      cssFileName: "page",
    },
  },
});
