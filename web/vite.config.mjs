// One classic script and one style sheet, with fixed names: the exporter puts both into the page.
import { defineConfig } from "vite";

export default defineConfig({
  build: {
    outDir: "dist",
    emptyOutDir: true,
    cssCodeSplit: false,
    target: "es2022",
    lib: {
      entry: "src/flame/main.ts",
      formats: ["iife"],
      name: "sightlineFlame",
      fileName: () => "flame.js",
      cssFileName: "flame",
    },
  },
});
