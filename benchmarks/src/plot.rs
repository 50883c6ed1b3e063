//! Curves as SVG: two logarithmic axes, a line a series.

use std::fmt::Write as _;

use serde::Serialize;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// Left, right, top and bottom of the curves.
const FRAME: (f64, f64, f64, f64) = (80.0, 620.0, 40.0, 310.0);
const COLOURS: [&str; 4] = ["#1f6feb", "#d1242f", "#1a7f37", "#8250df"];

/// A plot.
#[derive(Serialize)]
pub(crate) struct Plot {
    /// The file's name without its ending.
    pub(crate) file: String,
    pub(crate) title: String,
    x: String,
    y: String,
    series: Vec<Series>,
}

/// A line, with all its points.
#[derive(Serialize)]
pub(crate) struct Series {
    name: String,
    points: Vec<(f64, f64)>,
}

impl Series {
    pub(crate) fn new(name: &str, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.to_owned(), points: points.into_iter().collect() }
    }
}

/// A logarithmic axis, from one power of ten to another, onto a span of the picture.
struct Axis {
    decades: (i32, i32),
    span: (f64, f64),
}

impl Axis {
    fn over(values: impl Iterator<Item = f64> + Clone, span: (f64, f64)) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min).max(1e-9).log10().floor();
        let high = values.fold(0.0, f64::max).max(1e-9).log10().ceil();
        // Figures of benchmarks have few digits: the powers fit.
        Self { decades: (low as i32, (high as i32).max(low as i32 + 1)), span }
    }

    fn at(&self, value: f64) -> f64 {
        let (low, high) = (f64::from(self.decades.0), f64::from(self.decades.1));
        let share = (value.max(1e-9).log10() - low) / (high - low);
        self.span.0 + share * (self.span.1 - self.span.0)
    }

    /// 1, 2 and 5 of each power, or the powers alone where there are many.
    fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = if self.decades.1 - self.decades.0 > 2 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let powers = (self.decades.0..=self.decades.1).map(|decade| 10_f64.powi(decade));
        let end = 10_f64.powi(self.decades.1) * 1.001;
        powers.flat_map(|power| steps.iter().map(move |step| step * power)).filter(|tick| *tick < end).collect()
    }
}

impl Plot {
    pub(crate) fn new(file: &str, title: &str, (x, y): (&str, &str), series: impl IntoIterator<Item = Series>) -> Self {
        let series = series.into_iter().collect();
        Self { file: file.to_owned(), title: title.to_owned(), x: x.to_owned(), y: y.to_owned(), series }
    }

    /// The picture.
    pub(crate) fn svg(&self) -> String {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let (left, right, top, bottom) = FRAME;
        let x = Axis::over(points().map(|point| point.0), (left, right));
        let y = Axis::over(points().map(|point| point.1), (bottom, top));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        let text = |x: f64, y: f64, anchor: &str, text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;");
            format!("<text x=\"{x:.0}\" y=\"{y:.0}\" text-anchor=\"{anchor}\">{text}</text>\n")
        };
        let line = |from: (f64, f64), to: (f64, f64)| {
            let ((x1, y1), (x2, y2)) = (from, to);
            format!("<path d=\"M{x1:.1} {y1:.1}L{x2:.1} {y2:.1}\" stroke=\"#ddd\"/>\n")
        };
        for tick in x.ticks() {
            svg += &line((x.at(tick), top), (x.at(tick), bottom));
            svg += &text(x.at(tick), bottom + 16.0, "middle", &short(tick));
        }
        for tick in y.ticks() {
            svg += &line((left, y.at(tick)), (right, y.at(tick)));
            svg += &text(left - 6.0, y.at(tick) + 4.0, "end", &short(tick));
        }
        svg += &text(left, 18.0, "start", &self.title);
        svg += &text(f64::midpoint(left, right), bottom + 36.0, "middle", &self.x);
        svg += &text(left, top - 8.0, "end", &self.y);
        for (nth, series) in self.series.iter().enumerate() {
            let colour = COLOURS[nth % COLOURS.len()];
            let place = |(px, py): &(f64, f64)| (x.at(*px), y.at(*py));
            let path: Vec<String> = series.points.iter().map(place).map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
            let _ =
                writeln!(svg, "<path d=\"M{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>", path.join("L"));
            for (x, y) in series.points.iter().map(place) {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
            }
            let at = top + 14.0 + 16.0 * nth as f64;
            let _ =
                writeln!(svg, "<text x=\"{:.0}\" y=\"{at:.0}\" fill=\"{colour}\">{}</text>", left + 10.0, series.name);
        }
        svg + "</svg>\n"
    }
}

/// A number of an axis: 20k for 20,000.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e3 => format!("{}k", value / 1e3),
        value => format!("{value}"),
    }
}
