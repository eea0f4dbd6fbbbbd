// Command dashboard draws a dashboard of Grafana with the series that Prometheus answered, as TestDashboard of
// test/integration/monitoring writes it with -answers: each panel at its place, with its title, unit, colors and legend.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"slices"

	"github.com/go-analyze/charts"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: dashboard ANSWERS.json PICTURE.png")
		os.Exit(2)
	}
	if err := drawAll(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "dashboard:", err)
		os.Exit(1)
	}
}

// dashboard is what a dashboard looks like.
type dashboard struct {
	Title    string  `json:"title"`
	Panels   []panel `json:"panels"`
	Answered struct {
		From int64 `json:"from"` // seconds
		To   int64 `json:"to"`
		Step int64 `json:"step"`
	} `json:"answered"`
}

type panel struct {
	Type        string                    `json:"type"`
	Title       string                    `json:"title"`
	Description string                    `json:"description"`
	GridPos     struct{ X, Y, W, H int }  `json:"gridPos"`
	FieldConfig struct{ Defaults fields } `json:"fieldConfig"`
	Series      []series                  `json:"series"`
}

type fields struct {
	Unit       string `json:"unit"`
	NoValue    string `json:"noValue"`
	Thresholds struct {
		Steps []step `json:"steps"`
	} `json:"thresholds"`
	Custom struct {
		DrawStyle string `json:"drawStyle"`
		Stacking  struct {
			Mode string `json:"mode"`
		} `json:"stacking"`
	} `json:"custom"`
}

// step is a color from a value on, which the first has not.
type step struct {
	Color string   `json:"color"`
	Value *float64 `json:"value"`
}

type series struct {
	Legend string       `json:"legend"`
	Points [][2]float64 `json:"points"` // seconds and value
}

// Sizes in pixels. Grafana's grid has 24 columns, and rows of 30 with 8 between them.
const (
	column, row, gap, margin = 60, 38, 8, 8
	columns                  = 24
)

func drawAll(answers, picture string) error {
	text, err := os.ReadFile(answers)
	if err != nil {
		return err
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("read %s: %w", answers, err)
	}
	rows := 0
	for _, p := range d.Panels {
		rows = max(rows, p.GridPos.Y+p.GridPos.H)
	}
	canvas := charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputPNG, Width: 2*margin + columns*column, Height: 2*margin + rows*row, Theme: theme})
	canvas.FilledRect(0, 0, canvas.Width(), canvas.Height(), background, background, 0)
	for _, p := range d.Panels {
		x, y := margin+p.GridPos.X*column, margin+p.GridPos.Y*row
		box := canvas.Child(charts.PainterBoxOption(charts.NewBox(x, y, x+p.GridPos.W*column-gap, y+p.GridPos.H*row-gap)))
		if err := d.panel(box, p); err != nil {
			return fmt.Errorf("panel %s: %w", p.Title, err)
		}
	}
	raw, err := canvas.Bytes()
	if err != nil {
		return fmt.Errorf("draw: %w", err)
	}
	return compress(raw, picture)
}

// compress writes the picture with its 256 commonest colors, since it lies in the repository.
func compress(raw []byte, name string) error {
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	count := map[color.Color]int{}
	size := picture.Bounds()
	for y := range size.Dy() {
		for x := range size.Dx() {
			count[picture.At(x, y)]++
		}
	}
	palette := color.Palette(slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] }))
	small := image.NewPaletted(size, palette[:min(256, len(palette))])
	draw.Draw(small, size, picture, size.Min, draw.Src)
	var file bytes.Buffer
	if err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, small); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	return os.WriteFile(name, file.Bytes(), 0o644)
}
