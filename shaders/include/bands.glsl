// Order of the workgroups over the tiles of a large product: bands of BAND tiles along y, each column by column, so that those that run
// together read few different lines of both operands.
const uint BAND = 8;

uvec2 banded(const uvec2 id, const uvec2 count) {
    const uint number = id.y * count.x + id.x, band = number / (BAND * count.x), deep = min(BAND, count.y - band * BAND);
    const uint inside = number - band * BAND * count.x;
    return uvec2(inside / deep, band * BAND + inside % deep);
}
