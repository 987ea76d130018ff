// In place of the script that writes dates as a distance from the browser's clock.
function buildDateRenderer() {
    const format = new Intl.DateTimeFormat('en-GB', {dateStyle: 'medium', timeZone: 'UTC'});
    return function(data, type) {
        if (!data) return '';
        const date = new Date(data);
        if (type === 'sort' || type === 'type') return date.getTime();
        const element = document.createElement('time');
        element.className = 'small text-body-secondary';
        element.dateTime = data;
        element.textContent = format.format(date);
        return type === 'display' ? element.outerHTML : element.textContent;
    };
}
