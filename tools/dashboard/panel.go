package main

import (
	"fmt"
	"time"

	"github.com/go-analyze/charts"
)

var (
	theme      = charts.GetTheme(charts.ThemeLight)
	background = charts.ColorFromHex("#f4f5f5")
	dark       = charts.ColorFromHex("#24292e")
	gray       = charts.ColorFromHex("#6e7781")
	// named are Grafana's colors of thresholds.
	named = map[string]charts.Color{"green": charts.ColorFromHex("#1a7f4b"), "red": charts.ColorFromHex("#d1242f")}
)

const (
	heading = 26 // height of a panel's title
	line    = 17 // height of a line of the legend
)

func (d *dashboard) panel(p *charts.Painter, of panel) error {
	p.FilledRect(0, 0, p.Width(), p.Height(), charts.ColorWhite, charts.ColorFromHex("#d8dee4"), 1)
	style := charts.FontStyle{FontSize: 11, FontColor: dark}
	p.Text(of.Title, 10, 19, 0, style)
	if of.Type == "stat" {
		p.Text(of.Description, 10, p.Height()-10, 0, charts.FontStyle{FontSize: 8, FontColor: gray})
		of.stat(p)
		return nil
	}
	p.Text(of.Description, 22+p.MeasureText(of.Title, 0, style).Width(), 19, 0, charts.FontStyle{FontSize: 8, FontColor: gray})
	if len(of.Series) == 0 {
		p.Text("No data", p.Width()/2-25, p.Height()/2, 0, charts.FontStyle{FontSize: 11, FontColor: gray})
		return nil
	}
	return d.lines(p, of)
}

// stat is the last value, in the color of its threshold.
func (of panel) stat(p *charts.Painter) {
	text, value := of.FieldConfig.Defaults.NoValue, 0.0
	for _, s := range of.Series {
		if n := len(s.Points); n > 0 {
			value = s.Points[n-1][1]
			text = format(of.FieldConfig.Defaults.Unit, value)
		}
	}
	color := dark
	for _, step := range of.FieldConfig.Defaults.Thresholds.Steps {
		if step.Value == nil || value >= *step.Value {
			color = named[step.Color]
		}
	}
	style := charts.FontStyle{FontSize: 30, FontColor: color}
	p.Text(text, (p.Width()-p.MeasureText(text, 0, style).Width())/2, p.Height()/2+18, 0, style)
}

// lines is a chart with its legend below.
func (d *dashboard) lines(p *charts.Painter, of panel) error {
	n := int((d.Answered.To-d.Answered.From)/d.Answered.Step) + 1
	stacked := of.FieldConfig.Defaults.Custom.Stacking.Mode == "normal"
	labels, values, high := make([]string, n), make([][]float64, len(of.Series)), 0.0
	for i := range labels {
		labels[i] = time.Unix(d.Answered.From+int64(i)*d.Answered.Step, 0).UTC().Format("15:04")
	}
	for i, s := range of.Series {
		values[i] = make([]float64, n)
		for j := range values[i] {
			if !stacked {
				values[i][j] = charts.GetNullValue()
			}
		}
		for _, point := range s.Points {
			values[i][(int64(point[0])-d.Answered.From)/d.Answered.Step] = point[1]
			high = max(high, point[1])
		}
	}
	scale := 1.0 // so that marks of the axis are round numbers of seconds, minutes or hours
	for of.FieldConfig.Defaults.Unit == "s" && high/scale > 120 && scale < 3600 {
		scale *= 60
	}
	for i := range values {
		for j, v := range values[i] {
			if v != charts.GetNullValue() {
				values[i][j] = v / scale
			}
		}
	}
	small := charts.FontStyle{FontSize: 8, FontColor: gray}
	below := p.Child(charts.PainterPaddingOption(charts.NewBox(10, heading+6, 16, legend(p, of.Series)*line+8)))
	x := charts.XAxisOption{Labels: labels, LabelCount: of.GridPos.W, BoundaryGap: charts.Ptr(false), LabelFontStyle: small}
	y := charts.YAxisOption{Min: charts.Ptr(0.0), LabelFontStyle: small, ValueFormatter: func(v float64) string { return format(of.FieldConfig.Defaults.Unit, v*scale) }}
	if high <= 1 && of.FieldConfig.Defaults.Unit == "short" && !stacked {
		y.Max, y.LabelCount = charts.Ptr(1.0), 2
	}
	if of.FieldConfig.Defaults.Custom.DrawStyle == "bars" {
		bars := charts.NewBarChartOptionWithData(values)
		bars.Theme, bars.Padding, bars.Legend.Show = theme, charts.NewBox(0, 0, 0, 0), charts.Ptr(false)
		bars.StackSeries, bars.CategoryAxis, bars.ValueAxis = charts.Ptr(stacked), x, []charts.YAxisOption{y}
		return below.BarChart(bars)
	}
	lines := charts.NewLineChartOptionWithData(values)
	lines.Theme, lines.Padding, lines.Legend.Show = theme, charts.NewBox(0, 0, 0, 0), charts.Ptr(false)
	lines.StackSeries, lines.XAxis, lines.YAxis = charts.Ptr(stacked), x, []charts.YAxisOption{y}
	lines.LineStrokeWidth, lines.Symbol = 1.5, charts.Symbol{Shape: charts.SymbolNone}
	return below.LineChart(lines)
}

// legend writes as many lines as it needs, from the panel's lower edge, and returns their number.
func legend(p *charts.Painter, all []series) int {
	style := charts.FontStyle{FontSize: 8, FontColor: dark}
	type entry struct{ x, row, color int }
	at, x, rows := make([]entry, len(all)), 12, 1
	for i, s := range all {
		width := 18 + p.MeasureText(s.Legend, 0, style).Width() + 12
		if x+width > p.Width() && x > 12 {
			x, rows = 12, rows+1
		}
		at[i] = entry{x, rows, i}
		x += width
	}
	for i, s := range all {
		y := p.Height() - 8 - (rows-at[i].row)*line
		color := theme.GetSeriesColor(i)
		p.FilledRect(at[i].x, y-5, at[i].x+12, y-2, color, color, 0)
		p.Text(s.Legend, at[i].x+16, y, 0, style)
	}
	return rows
}

// format is a value as Grafana writes it in the unit.
func format(unit string, v float64) string {
	switch {
	case unit != "s":
		return fmt.Sprintf("%.3g", v)
	case v < 60:
		return fmt.Sprintf("%.3g s", v)
	case v < 3600:
		return fmt.Sprintf("%.3g min", v/60)
	}
	return fmt.Sprintf("%.3g h", v/3600)
}
